package ibv

import (
	"fmt"
	"math/bits"

	"github.com/railbind/railbind/cgo"
)

// deregister is how the region below is to be destroyed.
func (c *Context) deregister(h cgo.MR) func() error {
	if c.fakeDereg != nil {
		return func() error { return c.fakeDereg(h) }
	}
	return h.Dereg
}

// DeviceMemory is memory on the device itself: what peers write there does not
// cross the bus. Safe for concurrent use; it is an io.ReaderAt and io.WriterAt.
type DeviceMemory struct {
	node    *node
	h       cgo.DM
	ctx     *Context
	size    int
	destroy func() error
}

func (d *DeviceMemory) life() *node {
	if d == nil {
		return nil
	}
	return d.node
}

// AllocDM allocates size bytes of the device's memory, at a multiple of align
// (a power of two; 0 for any). Where the device has none, the error matches
// errors.ErrUnsupported; QueryDeviceEx tells how much there is.
//
// Implements: struct ibv_dm *ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
func (c *Context) AllocDM(size, align int) (*DeviceMemory, error) {
	const op = "allocate device memory"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	if size <= 0 {
		return nil, invalid(op, c.name, ErrInvalid, "%d bytes", size)
	}
	if align < 0 || align&(align-1) != 0 {
		return nil, invalid(op, c.name, ErrInvalid, "%d is no power of two to align to", align)
	}
	_, x, err := c.h.QueryDeviceEx()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	if most := x.MaxDMSize; most != 0 && uint64(size) > most {
		return nil, invalid(op, c.name, ErrTooLong, "%d bytes, an allocation of this device has at most %d", size, most)
	}
	log := uint32(0)
	if align > 1 {
		log = uint32(bits.Len(uint(align)) - 1)
	}
	h, err := c.h.AllocDM(uint64(size), log)
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	return newDM(c, h, size, h.Free), nil
}

func newDM(c *Context, h cgo.DM, size int, destroy func() error) *DeviceMemory {
	n := newNode(fmt.Sprintf("device memory of %d bytes on %s", size, c.name), nil, c.node)
	return watch(&DeviceMemory{node: n, h: h, ctx: c, size: size, destroy: destroy}, n)
}

// Len is the memory's size in bytes.
func (d *DeviceMemory) Len() int {
	if d == nil {
		return 0
	}
	return d.size
}

// Handle is the kernel's number of the memory, to be imported with ImportDM.
func (d *DeviceMemory) Handle() (uint32, error) {
	const op = "device memory's handle"
	if err := d.life().enter(op); err != nil {
		return 0, err
	}
	defer d.node.leave()
	v, err := d.h.Handle()
	if err != nil {
		return 0, fail(op, d.node.name, err)
	}
	return v, nil
}

// WriteAt copies b to the device's memory, all of it or nothing.
//
// Implements: int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr, size_t length)
func (d *DeviceMemory) WriteAt(b []byte, off int64) (int, error) {
	return d.copy("write device memory", b, off, cgo.DM.CopyTo)
}

// ReadAt copies the device's memory into b, all of it or nothing.
//
// Implements: int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length)
func (d *DeviceMemory) ReadAt(b []byte, off int64) (int, error) {
	return d.copy("read device memory", b, off, cgo.DM.CopyFrom)
}

func (d *DeviceMemory) copy(op string, b []byte, off int64, how func(cgo.DM, uint64, []byte) error) (int, error) {
	if err := d.life().enter(op); err != nil {
		return 0, err
	}
	defer d.node.leave()
	if uint64(off) > uint64(d.size) || len(b) > d.size-int(off) {
		return 0, invalid(op, d.node.name, ErrOutOfRange, "%d bytes at offset %d", len(b), off)
	}
	if len(b) == 0 {
		return 0, nil
	}
	if err := how(d.h, uint64(off), b); err != nil {
		return 0, fail(op, d.node.name, err)
	}
	return len(b), nil
}

// ExportDMABuf makes a dma-buf of the memory, for another device to use; the
// descriptor is the caller's to close. It needs rdma-core 62.
//
// Implements: int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
func (d *DeviceMemory) ExportDMABuf() (fd int, err error) {
	const op = "export device memory"
	if err := d.life().enter(op); err != nil {
		return -1, err
	}
	defer d.node.leave()
	if fd, err = d.h.ExportDMABuf(); err != nil {
		return -1, fail(op, d.node.name, err)
	}
	return fd, nil
}

// Close gives the memory back; a *BusyError names the regions that are left.
//
// Implements: int ibv_free_dm(struct ibv_dm *dm)
func (d *DeviceMemory) Close() error {
	return d.life().close(func() error {
		if err := d.destroy(); err != nil {
			return fail("free device memory", d.node.name, err)
		}
		return nil
	})
}

// RegisterDM registers length bytes of device memory from offset on. The device
// and the peer name its first byte 0 (ZeroBased is implied); Bytes is nil. The
// memory cannot be closed before the region.
//
// Implements: struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length, unsigned int access)
func (p *PD) RegisterDM(d *DeviceMemory, offset, length int, access Access) (*MR, error) {
	const op = "register device memory"
	if err := d.life().enter(op); err != nil {
		return nil, err
	}
	defer d.node.leave()
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	if err := sameContext(op, d.node.name, p.ctx, d.ctx); err != nil {
		return nil, err
	}
	if length <= 0 || !inside(offset, length, d.size) {
		return nil, invalid(op, d.node.name, ErrOutOfRange, "%d bytes at offset %d", length, offset)
	}
	return p.registerWith(op, region{size: length, access: access | ZeroBased},
		func(access uint32) (cgo.MR, uint32, uint32, error) {
			return p.h.RegDMMR(d.h, uint64(offset), length, access)
		}, d.node)
}
