package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bootModules are what the agent needs to reach the driver and this machine's
// files. Everything else is loaded from there, by modprobe, in the topologies.
var bootModules = []string{"virtio_pci", "virtio_console", "virtio_rng", "9pnet_virtio", "9p", "overlay"}

// cpio writes an initramfs archive ("newc", see the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst).
type cpio struct {
	w   io.Writer
	ino int
	err error
}

func (c *cpio) entry(name string, mode int, data []byte) {
	c.ino++
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	c.put([]byte(head + name + "\x00"))
	c.put(make([]byte, pad4(len(head)+len(name)+1)))
	c.put(data)
	c.put(make([]byte, pad4(len(data))))
}

func (c *cpio) put(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}

func (c *cpio) dir(name string)               { c.entry(name, 0o040755, nil) }
func (c *cpio) file(name string, data []byte) { c.entry(name, 0o100755, data) }
func (c *cpio) close() error                  { c.entry("TRAILER!!!", 0, nil); return c.err }

func pad4(n int) int { return -n & 3 }

// writeInitrd packs the agent, which is this very program, and the modules it
// needs before it can see this machine's files.
func writeInitrd(w io.Writer, agent []byte, moduleDir string) error {
	deps, err := os.ReadFile(filepath.Join(moduleDir, "modules.dep"))
	if err != nil {
		return err
	}
	builtin, err := os.ReadFile(filepath.Join(moduleDir, "modules.builtin"))
	if err != nil {
		return err
	}
	paths, err := loadOrder(string(deps), string(builtin), bootModules)
	if err != nil {
		return err
	}
	c := &cpio{w: w}
	for _, d := range []string{"dev", "proc", "sys", "host", "rw", "new", "user", "files", "modules"} {
		c.dir(d)
	}
	c.file("init", agent)
	var list bytes.Buffer
	for i, p := range paths {
		data, err := readModule(filepath.Join(moduleDir, p))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("modules/%02d-%s.ko", i, moduleName(p))
		c.file(name, data)
		fmt.Fprintln(&list, name)
	}
	c.file("modules/order", list.Bytes())
	return c.close()
}

// loadOrder returns the files of the named modules and of all they depend on,
// each after its dependencies. Names built into the kernel are left out.
func loadOrder(modulesDep, modulesBuiltin string, names []string) ([]string, error) {
	file := map[string]string{}
	needs := map[string][]string{}
	for line := range strings.Lines(modulesDep) {
		path, deps, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			file[moduleName(path)] = path
			needs[path] = strings.Fields(deps)
		}
	}
	builtin := map[string]bool{}
	for line := range strings.Lines(modulesBuiltin) {
		builtin[moduleName(strings.TrimSpace(line))] = true
	}
	var order []string
	seen := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		for _, d := range needs[path] {
			visit(d)
		}
		order = append(order, path)
	}
	for _, n := range names {
		path, ok := file[moduleName(n)]
		switch {
		case ok:
			visit(path)
		case !builtin[moduleName(n)]:
			return nil, fmt.Errorf("this kernel has no module %s", n)
		}
	}
	return order, nil
}

// moduleName of a file: the kernel takes - and _ for the same.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModule unpacks what newer Debian kernels compress.
func readModule(path string) ([]byte, error) {
	if !strings.HasSuffix(path, ".xz") {
		return os.ReadFile(path)
	}
	out, err := exec.Command("xz", "-dc", path).Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("xz is missing; apt-get install xz-utils")
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return out, nil
}

// initrdFile returns the initramfs as an open file that has no name anymore:
// nothing of it stays behind however the run ends.
func initrdFile(moduleDir string) (*os.File, error) {
	agent, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "railbind-initrd-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	if err := writeInitrd(f, agent, moduleDir); err != nil {
		f.Close()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the cached kernel is not whole (%w); remove the folder %s", err, filepath.Dir(moduleDir))
		}
		return nil, err
	}
	return f, nil
}
