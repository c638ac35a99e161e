//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// userSpaces are the suites of Debian that bring each version of rdma-core.
var userSpaces = map[string]string{"44": "bookworm", "56": "trixie", "65": "sid"}

// userPackages are what the topologies and the tests call, beside rdma-core, and
// the headers, so that one can also build for it.
var userPackages = []string{
	"rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest",
	"libibverbs-dev", "librdmacm-dev", "libc6-dev",
	"iproute2", "iputils-ping", "kmod", "procps", "util-linux",
	"bash", "dash", "coreutils", "findutils", "grep", "sed", "mawk", "libc-bin", "libgcc-s1", "base-files",
}

// userSpace is a suite's user space that lies unpacked in the cache.
type userSpace struct {
	Suite    string
	RDMACore string // version of the Debian package
	Libc     string
	dir      string
}

func (u userSpace) root() string { return filepath.Join(u.dir, "root") }

// userSpace returns the suite's user space as Debian had it when it was first
// asked for.
func (c cache) userSpace(ctx context.Context, major string, say func(string)) (userSpace, error) {
	dir := filepath.Join(c.dir, "rdma-core-"+major)
	if u, err := readUserSpace(dir); err == nil {
		return u, nil
	}
	unlock, err := c.lock()
	if err != nil {
		return userSpace{}, err
	}
	defer unlock()
	if u, err := readUserSpace(dir); err == nil { // fetched while we waited
		return u, nil
	}
	say(fmt.Sprintf("fetching Debian's rdma-core %s and what it needs into %s (once)", major, dir))
	u, err := c.fetchUserSpace(ctx, major, dir)
	if err != nil {
		return userSpace{}, fmt.Errorf("rdma-core %s: %w", major, err)
	}
	return u, nil
}

func readUserSpace(dir string) (userSpace, error) {
	u := userSpace{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "userspace.json"))
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal(text, &u)
}

func (c cache) fetchUserSpace(ctx context.Context, major, dir string) (userSpace, error) {
	u := userSpace{Suite: userSpaces[major], dir: dir}
	apt, err := c.apt(ctx, u.Suite)
	if err != nil {
		return u, err
	}
	for name, version := range map[string]*string{"libibverbs1": &u.RDMACore, "libc6": &u.Libc} {
		if *version, err = apt.version(ctx, name); err != nil {
			return u, err
		}
	}
	if !strings.HasPrefix(u.RDMACore, major+".") {
		return u, fmt.Errorf("suite %s brings %s now; the table of suites in ci/vm/userspace.go needs an update", u.Suite, u.RDMACore)
	}
	tmp := dir + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir)); err != nil {
		return u, err
	}
	if err := apt.root(ctx, filepath.Join(tmp, "root"), userPackages...); err != nil {
		return u, err
	}
	text, err := json.Marshal(u)
	if err != nil {
		return u, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "userspace.json"), text, 0o644); err != nil {
		return u, err
	}
	return u, os.Rename(tmp, dir)
}

// version of a package in the suite.
func (a *apt) version(ctx context.Context, pkg string) (string, error) {
	out, err := output(ctx, "", "apt-cache", append(a.opts, "show", "--no-all-versions", pkg)...)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if v, ok := strings.CutPrefix(line, "Version: "); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("suite %s has no package %s", a.suite, pkg)
}

// root unpacks packages, with all that they depend on, into a folder that one
// can chroot to. No package's scripts run; what they would have made and we
// need is made here.
func (a *apt) root(ctx context.Context, dir string, pkgs ...string) error {
	debs := dir + ".debs"
	defer func() { _ = os.RemoveAll(debs) }()
	if err := os.MkdirAll(filepath.Join(debs, "partial"), 0o755); err != nil {
		return err
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(dir, "usr", d), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+d, filepath.Join(dir, d)); err != nil {
			return err
		}
	}
	// Nothing is installed as far as this apt knows, so it fetches all.
	args := append(a.opts, "-o", "Dir::Cache::archives="+debs, "-qq", "--download-only", "-y", "--no-install-recommends", "install")
	if _, err := output(ctx, "", "apt-get", append(args, pkgs...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), "linux-image-") {
			continue // large; headers depend on it for its module tree only
		}
		// (dpkg-deb -x would replace the links above.)
		const unpack = `dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner -C "$2"`
		if _, err := output(ctx, "", "sh", "-c", unpack, "sh", f, dir); err != nil {
			return err
		}
	}
	if err := os.Symlink("mawk", filepath.Join(dir, "usr/bin/awk")); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
		"etc/group":  "root:x:0:\n",
		"etc/hosts":  "127.0.0.1 localhost\n::1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
