package ibv

import (
	"errors"
	"strconv"
	"strings"

	"github.com/railbind/railbind/cgo"
)

// library is the file that a library was loaded from, and rdma-core's version of
// it, which its name ends in: libibverbs.so.1.14.44.0.
func (h *host) library(name string) (file string, version int) {
	for line := range strings.Lines(h.read("/proc/self/maps")) {
		before, suffix, found := strings.Cut(strings.TrimSpace(line), "/"+name+".so.")
		if !found {
			continue
		}
		if _, at, ok := strings.Cut(before, "/"); ok {
			before = "/" + at
		}
		if parts := strings.Split(suffix, "."); len(parts) >= 3 {
			version, _ = strconv.Atoi(parts[2])
		}
		return before + "/" + name + ".so." + suffix, version
	}
	return "", 0
}

// version is rdma-core's version of a library, where it is known.
func (h *host) version(name string) (int, bool) {
	_, v := h.library(name)
	return v, v > 0
}

// libraries looks at rdma-core.
func (d *diagnosis) libraries(err error) {
	var e *Error
	if errors.Is(err, cgo.NoLibrary) && errors.As(err, &e) {
		d.addError("libraries", "rdma-core", []string{"apt-get install -y libibverbs1 librdmacm1 ibverbs-providers"}, e)
		return
	}
	for _, name := range []string{"libibverbs", "librdmacm"} {
		if file, v := d.library(name); file != "" {
			d.add(SeverityOK, "libraries", name, nil, "rdma-core %d, %s", v, file)
		}
	}
}

// versions tells of faults that others have in our path.
func (d *diagnosis) versions() {
	core, known := d.version("libibverbs")
	for _, dev := range d.devices {
		if d.siw(dev) {
			d.add(SeverityNote, "kernel", dev.name, nil, "siw (6.1 to 7.2) answers a READ of at most 32 bytes across a page's end with other bytes, and leaves a first message unread that comes too early: package cm makes up for both, programs with queues of their own do not")
		}
		if !d.rxe(dev) {
			continue
		}
		if known && core < 64 {
			d.add(SeverityNote, "libraries", dev.name, nil, "rxe in rdma-core before 64 posts wrong lengths through ibv_wr_* (C programs, QPEx); railbind does not post through it")
		}
		if d.kernelBefore(6, 12) {
			d.add(SeverityNote, "kernel", dev.name, nil, "on kernels before 6.12, a packet for rxe that arrives through another rail can end the kernel: keep rails in subnets of their own")
		}
	}
}
