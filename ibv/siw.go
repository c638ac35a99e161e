package ibv

import (
	"errors"
	"sync"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// The software iWARP device. Its part of libibverbs takes one place in the
// memory map that it shares with the kernel to mean "none": whatever queue the
// kernel puts there, the 145th page of a context, cannot be created and fails
// without an errno. The kernel gives the first place that is free, so from then
// on all creations fail, after some 48 completion queues of 256 or 20
// connections. (rdma-core 44 to 65, kernels 6.1 to 7.2.)
const (
	siwVendor   = 0x626d74
	siwNoneCQEs = 32768 // of 32 bytes each, from the first page past the 145th
)

// ballast is a completion queue over that place, which keeps all others off it
// for the life of a context. It costs a MiB of the kernel's memory.
type ballast struct {
	mu   sync.Mutex
	done bool
	cq   cgo.CQ
}

// keep makes the ballast before the first queue of a context of siw.
func (b *ballast) keep(c *Context) error {
	if c.Transport() != TransportIWARP {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return nil
	}
	lim, err := c.known()
	if err != nil {
		return err
	}
	if lim.dev.VendorID == siwVendor {
		if b.cq, err = c.h.CreateCQ(siwNoneCQEs, 0, cgo.CompChannel{}, 0); err != nil {
			return fail("create CQ", c.name, err)
		}
	}
	b.done = true
	return nil
}

// drop gives the ballast back, before its context closes.
func (b *ballast) drop() error {
	if b.cq.IsNil() {
		return nil
	}
	err := b.cq.Destroy()
	if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EIO) {
		err = nil // the device is gone
	}
	b.cq = cgo.CQ{}
	return err
}
