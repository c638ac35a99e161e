//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// suites of Debian that bring each kernel series.
var suites = map[string]string{"6.1": "bookworm", "6.12": "trixie", "7": "sid"}

// kernel is one that lies unpacked in the cache. Its folder holds the image, the
// modules, and kernel.json, which is written last and so says that all is there.
type kernel struct {
	Release string // as uname -r prints it
	Version string // of the Debian package
	dir     string
}

func (k kernel) image() string     { return filepath.Join(k.dir, "kernel") }
func (k kernel) moduleDir() string { return filepath.Join(k.dir, "modules", k.Release) }

type cache struct {
	dir string
}

func openCache() (cache, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return cache{}, err
		}
		base = filepath.Join(home, ".cache")
	}
	c := cache{filepath.Join(base, "railbind")}
	return c, os.MkdirAll(c.dir, 0o755)
}

// lock lets one process at a time fill the cache.
func (c cache) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// kernel returns the newest kernel of the series that Debian had when it was
// first asked for.
func (c cache) kernel(ctx context.Context, series string, say func(string)) (kernel, error) {
	dir := filepath.Join(c.dir, "kernel-"+series)
	if k, err := readKernel(dir); err == nil {
		return k, nil
	}
	unlock, err := c.lock()
	if err != nil {
		return kernel{}, err
	}
	defer unlock()
	if k, err := readKernel(dir); err == nil { // fetched while we waited
		return k, nil
	}
	say(fmt.Sprintf("fetching Debian's kernel %s into %s (once)", series, dir))
	k, err := c.fetchKernel(ctx, series, dir)
	if err != nil {
		return kernel{}, fmt.Errorf("kernel %s: %w", series, err)
	}
	return k, nil
}

func readKernel(dir string) (kernel, error) {
	k := kernel{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal(text, &k)
}

func (c cache) fetchKernel(ctx context.Context, series, dir string) (kernel, error) {
	apt, err := c.apt(ctx, suites[series])
	if err != nil {
		return kernel{}, err
	}
	name, version, err := apt.depends(ctx, "linux-image-amd64", "linux-image-")
	if err != nil {
		return kernel{}, err
	}
	k := kernel{Release: strings.TrimPrefix(name, "linux-image-"), Version: version, dir: dir}
	if !strings.HasPrefix(k.Release+".", series+".") {
		return kernel{}, fmt.Errorf("suite %s brings %s now; the table of suites in ci/vm/kernel.go needs an update", apt.suite, name)
	}
	tmp := dir + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir), os.MkdirAll(tmp, 0o755)); err != nil {
		return kernel{}, err
	}
	pkgs := []string{name}
	// Newer packages only refer to those that hold the files.
	for _, part := range []string{"linux-base-", "linux-binary-", "linux-modules-"} {
		if p, _, err := apt.depends(ctx, name, part+k.Release); err == nil {
			pkgs = append(pkgs, p)
		}
	}
	deb := filepath.Join(tmp, "deb")
	if err := apt.unpack(ctx, deb, pkgs...); err != nil {
		return kernel{}, err
	}
	bzImage, err := readFirst(deb, "boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz", "usr/lib/linux/*/vmlinuz*")
	if err != nil {
		return kernel{}, err
	}
	if err := writeImage(bzImage, filepath.Join(tmp, "kernel")); err != nil {
		return kernel{}, err
	}
	modules := filepath.Join(deb, "lib/modules")
	if _, err := os.Stat(modules); err != nil {
		modules = filepath.Join(deb, "usr/lib/modules")
	}
	if err := os.Rename(modules, filepath.Join(tmp, "modules")); err != nil {
		return kernel{}, err
	}
	if err := depmod(ctx, filepath.Join(tmp, "modules"), k.Release); err != nil {
		return kernel{}, err
	}
	text, err := json.Marshal(k)
	if err != nil {
		return kernel{}, err
	}
	if err := os.RemoveAll(deb); err != nil {
		return kernel{}, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "kernel.json"), text, 0o644); err != nil {
		return kernel{}, err
	}
	return k, os.Rename(tmp, dir)
}

// readFirst reads the first file in dir that matches a pattern.
func readFirst(dir string, patterns ...string) ([]byte, error) {
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, p))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			return os.ReadFile(f)
		}
	}
	return nil, fmt.Errorf("the package has no file %s", strings.Join(patterns, " or "))
}

// writeImage writes what QEMU boots: unpacked where we can, else as it is.
func writeImage(bzImage []byte, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if unpackImage(bzImage, f) == nil {
		return f.Close()
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(bzImage, 0); err != nil {
		return err
	}
	return f.Close()
}

// depmod computes the dependencies of modules/RELEASE, as installing the
// package would have.
func depmod(ctx context.Context, modules, release string) error {
	// It insists on a folder lib/modules.
	base := modules + ".depmod"
	defer func() { _ = os.RemoveAll(base) }()
	if err := os.MkdirAll(filepath.Join(base, "lib"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(modules, filepath.Join(base, "lib/modules")); err != nil {
		return err
	}
	_, err := output(ctx, "", sbin("depmod"), "-b", base, release)
	return err
}

// sbin finds administrators' programs for users whose PATH lacks them.
func sbin(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", name)
}

// output runs a helper program; its error carries what it printed on stderr.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// apt reads one Debian suite with lists of its own in the cache, so it needs
// no rights and leaves the machine's own apt alone.
type apt struct {
	suite string
	opts  []string
}

func (c cache) apt(ctx context.Context, suite string) (*apt, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("apt-get is missing, and kernels come from Debian packages; use a Debian machine or container")
	}
	sources, err := sources(ctx, suite)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.dir, "apt", suite)
	for _, d := range []string{"lists/partial", "cache/archives/partial", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	list := filepath.Join(dir, "sources.list")
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(list, []byte(sources), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	a := &apt{suite: suite}
	for _, o := range []string{
		"Dir::State=" + dir,
		"Dir::State::status=" + status,
		"Dir::State::lists=" + filepath.Join(dir, "lists"),
		"Dir::Cache=" + filepath.Join(dir, "cache"),
		"Dir::Etc::sourcelist=" + list,
		"Dir::Etc::sourceparts=" + filepath.Join(dir, "empty"),
		"Dir::Etc::preferencesparts=" + filepath.Join(dir, "empty"),
		"APT::Architecture=amd64",
		"APT::Architectures=amd64",
		"APT::Sandbox::User=root", // _apt cannot enter a home folder
		"Acquire::Languages=none",
		"Acquire::Retries=3",
	} {
		a.opts = append(a.opts, "-o", o)
	}
	_, err = output(ctx, "", "apt-get", append(a.opts, "-q", "update")...)
	if err != nil {
		return nil, fmt.Errorf("%w (RAILBIND_MIRROR sets another Debian mirror)", err)
	}
	return a, nil
}

// sources lists a suite, and its security updates where it has them, on the
// mirrors that the machine uses itself, or on the one in RAILBIND_MIRROR.
func sources(ctx context.Context, suite string) (string, error) {
	var targets string
	if m := os.Getenv("RAILBIND_MIRROR"); m != "" {
		targets = m + " main\n"
	} else {
		var err error
		targets, err = output(ctx, "", "apt-get", "indextargets",
			"--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages", "Origin: Debian")
		if err != nil {
			return "", err
		}
	}
	options := ""
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err == nil {
		options = "[signed-by=" + keyring + "] "
	}
	return sourcesList(targets, suite, options)
}

// sourcesList turns lines of repository and component, as apt-get indextargets
// gives them, into a sources.list for one suite.
func sourcesList(targets, suite, options string) (string, error) {
	var main, security string
	for line := range strings.Lines(targets) {
		uri, component, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case component != "main":
		case strings.Contains(uri, "security"):
			security = uri
		case main == "":
			main = uri
		}
	}
	if main == "" {
		return "", errors.New("apt knows no Debian archive; run apt-get update, or set RAILBIND_MIRROR to a Debian mirror")
	}
	list := "deb " + options + main + " " + suite + " main\n"
	if security != "" && suite != "sid" {
		list += "deb " + options + security + " " + suite + "-security main\n"
	}
	return list, nil
}

// depends returns the first dependency of a package whose name starts with
// prefix, and the version it must have.
func (a *apt) depends(ctx context.Context, pkg, prefix string) (name, version string, err error) {
	out, err := output(ctx, "", "apt-cache", append(a.opts, "show", "--no-all-versions", pkg)...)
	if err != nil {
		return "", "", err
	}
	return parseDepends(out, prefix)
}

var dependency = regexp.MustCompile(`(\S+) \(= ([^)]+)\)`)

func parseDepends(control, prefix string) (name, version string, err error) {
	for line := range strings.Lines(control) {
		list, ok := strings.CutPrefix(line, "Depends: ")
		if !ok {
			continue
		}
		for _, d := range strings.Split(list, ",") {
			if m := dependency.FindStringSubmatch(d); m != nil && strings.HasPrefix(m[1], prefix) {
				return m[1], m[2], nil
			}
		}
	}
	return "", "", fmt.Errorf("no dependency %s* in the package's description", prefix)
}

// unpack fetches packages and unpacks them over each other into dir.
func (a *apt) unpack(ctx context.Context, dir string, pkgs ...string) error {
	debs := dir + ".debs"
	defer func() { _ = os.RemoveAll(debs) }()
	if err := errors.Join(os.MkdirAll(debs, 0o755), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if _, err := output(ctx, debs, "apt-get", append(append(a.opts, "-q", "download"), pkgs...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := output(ctx, "", "dpkg-deb", "-x", f, dir); err != nil {
			return err
		}
		// Freed at once: kernels are large.
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}
