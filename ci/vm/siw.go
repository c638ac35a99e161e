//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// siw makes sure that the cached kernel has the iWARP module, which Debian
// ships as source only.
func (c cache) siw(ctx context.Context, k kernel, suite string, say func(string)) error {
	module := filepath.Join(k.moduleDir(), "updates/siw.ko")
	if _, err := os.Stat(module); err == nil {
		return nil
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(module); err == nil { // built while we waited
		return nil
	}
	say("building the iWARP module siw for kernel " + k.Release + " (once, about a minute)")
	if err := c.buildSiw(ctx, k, suite, module); err != nil {
		return fmt.Errorf("siw for kernel %s: %w", k.Release, err)
	}
	return nil
}

// buildSiw builds in a root of the kernel's own suite: the headers bring the
// compiler that built the kernel, and build tools that want that suite's libc.
func (c cache) buildSiw(ctx context.Context, k kernel, suite, module string) error {
	apt, err := c.apt(ctx, suite)
	if err != nil {
		return err
	}
	root := filepath.Join(c.dir, "siw.new")
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()

	// Headers and source must be those of the kernel, to the revision.
	source := "linux-source-" + kernelSeries(k.Release)
	headers := "linux-headers-" + k.Release
	if err := apt.root(ctx, root, headers+"="+k.Version, source+"="+k.Version,
		"make", "gcc", "base-files", "dash", "coreutils", "findutils", "grep", "sed", "mawk"); err != nil {
		return fmt.Errorf("%w (where Debian has moved on from %s, remove the folder %s to take its newest kernel)", err, k.Version, k.dir)
	}
	build := source + "/drivers/infiniband/sw/siw"
	if _, err := output(ctx, "", "tar", "-xJf", filepath.Join(root, "usr/src", source+".tar.xz"), "-C", filepath.Join(root, "tmp"), build); err != nil {
		return err
	}
	if err := inRoot(ctx, root, "make", "-s", "-C", "/usr/src/"+headers, "M=/tmp/"+build, "CONFIG_RDMA_SIW=m", "modules"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(module), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(root, "tmp", build, "siw.ko"), module+".new"); err != nil {
		return err
	}
	if err := os.Rename(module+".new", module); err != nil {
		return err
	}
	if err := depmod(ctx, filepath.Dir(k.moduleDir()), k.Release); err != nil {
		return errors.Join(err, os.Remove(module))
	}
	return nil
}

// inRoot runs a program in an unpacked root, with mounts that end with it.
func inRoot(ctx context.Context, root string, argv ...string) error {
	const script = `set -e
		mount --rbind /dev "$1/dev"
		mount --rbind /proc "$1/proc"
		root=$1
		shift
		exec chroot "$root" "$@"`
	args := []string{"--mount"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user") // who may not mount is root in a namespace
	}
	args = append(args, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "sh", "-c", script, "sh", root)
	_, err := output(ctx, "", "unshare", append(args, argv...)...)
	return err
}

// kernelSeries of a release: 6.1 of 6.1.0-50-amd64.
func kernelSeries(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
