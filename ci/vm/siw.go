//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// siw makes sure that the cached kernel has the iWARP module, which Debian
// ships as source only.
func (c cache) siw(ctx context.Context, root string, k kernel, say func(string)) error {
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
	packages := exec.CommandContext(ctx, filepath.Join(root, "ci/packages"), "siw")
	packages.Stderr = os.Stderr
	if err := packages.Run(); err != nil {
		return errors.New("the packages that siw is built with are missing")
	}
	say("building the iWARP module siw for kernel " + k.Release + " (once, about a minute)")
	if err := c.buildSiw(ctx, k, module); err != nil {
		return fmt.Errorf("siw for kernel %s: %w", k.Release, err)
	}
	return nil
}

func (c cache) buildSiw(ctx context.Context, k kernel, module string) error {
	series := kernelSeries(k.Release)
	apt, err := c.apt(ctx, suites[series])
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "siw.new")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// Headers and source must be those of the kernel, to the revision.
	headers := "linux-headers-" + k.Release
	common := "linux-headers-" + strings.TrimSuffix(k.Release, "-amd64") + "-common"
	source := "linux-source-" + series
	err = apt.unpack(ctx, filepath.Join(dir, "deb"),
		headers+"="+k.Version, common+"="+k.Version, source+"="+k.Version, "linux-kbuild-"+series)
	if err != nil {
		return fmt.Errorf("%w (where Debian has moved on from %s, remove the folder %s to take its newest kernel)", err, k.Version, k.dir)
	}
	src := filepath.Join(dir, "deb/usr/src")
	if _, err := output(ctx, "", "tar", "-xJf", filepath.Join(src, source+".tar.xz"), "-C", dir, source+"/drivers/infiniband/sw/siw"); err != nil {
		return err
	}
	// Installed, the packages would find each other by absolute paths.
	makefile := "include " + filepath.Join(src, common, "Makefile") + "\n"
	if err := os.WriteFile(filepath.Join(src, headers, "Makefile"), []byte(makefile), 0o644); err != nil {
		return err
	}
	build := filepath.Join(dir, source, "drivers/infiniband/sw/siw")
	if _, err := output(ctx, "", "make", "-s", "-C", filepath.Join(src, headers), "M="+build, "CONFIG_RDMA_SIW=m", "modules"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(module), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(build, "siw.ko"), module+".new"); err != nil {
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

// kernelSeries of a release: 6.1 of 6.1.0-50-amd64.
func kernelSeries(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
