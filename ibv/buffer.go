package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// Buffer is memory outside the Go heap, for registration. Safe for concurrent
// use.
type Buffer struct {
	node *node
	mem  []byte

	pd *PD // that has allocated it, and how its provider knows it
	h  cgo.Buf
}

// BufferConfig says how a Buffer is made.
type BufferConfig struct {
	// HugePages asks for the system's huge pages, reserved beforehand; the
	// size is rounded up to them. Default: pages of the usual size.
	HugePages bool

	// HugePageSize asks for huge pages of that many bytes, a power of two, where
	// the system has several sizes. Default: the system's default, with HugePages.
	HugePageSize int

	// Nodes are the NUMA nodes to take the pages from, as long as they have some:
	// best a device's own (Device.NUMANode). Default: where they are first
	// touched. A kernel without NUMA does not mind.
	Nodes []int
}

// NewBuffer maps size bytes, zeroed. No huge pages to be had is an error, not a
// silent fallback.
func NewBuffer(size int, cfg BufferConfig) (*Buffer, error) {
	mem, err := mapMemory(size, cfg)
	if err != nil {
		return nil, err
	}
	n := newNode(fmt.Sprintf("buffer of %d bytes", len(mem)), mem)
	return watch(&Buffer{node: n, mem: mem}, n), nil
}

// AllocBuffer is NewBuffer with memory of the provider's choice, for regions of
// this domain: in a confidential guest, say, memory that the device can reach. It
// needs rdma-core 64: an older one is errors.ErrUnsupported.
//
// Implements: void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
func (p *PD) AllocBuffer(size int) (*Buffer, error) {
	const op = "allocate buffer"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	if size <= 0 {
		return nil, invalid(op, p.node.name, ErrInvalid, "size %d", size)
	}
	h, mem, err := p.h.AllocBuf(size)
	if err != nil {
		return nil, fail(op, p.node.name, err)
	}
	clear(mem)
	n := newNode(fmt.Sprintf("buffer of %d bytes of %s", size, p.node.name), nil, p.node)
	return watch(&Buffer{node: n, mem: mem, pd: p, h: h}, n), nil
}

// ExportDMABuf gives the dma-buf that is the memory of a buffer of AllocBuffer, for
// another device to use; the descriptor is the caller's to close. It needs
// rdma-core 65. Ordinary memory is none: the error matches errors.ErrUnsupported.
//
// Implements: int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
func (b *Buffer) ExportDMABuf() (fd int, err error) {
	const op = "export buffer"
	if err := b.life().enter(op); err != nil {
		return -1, err
	}
	defer b.node.leave()
	if b.h.IsNil() {
		return -1, invalid(op, b.node.name, errors.ErrUnsupported, "its memory is no dma-buf")
	}
	fd, err = b.h.ExportDMABuf()
	switch {
	case errors.Is(err, syscall.ENODATA):
		return -1, &Error{Op: op, Object: b.node.name, Kind: errors.ErrUnsupported, Err: err, Hint: "its memory is no dma-buf"}
	case err != nil:
		return -1, fail(op, b.node.name, err)
	}
	return fd, nil
}

func (b *Buffer) life() *node {
	if b == nil {
		return nil
	}
	return b.node
}

// Bytes is the memory, nil once the buffer is closed. Slices taken before must
// not be used after Close: the memory is unmapped.
func (b *Buffer) Bytes() []byte {
	if b.life().gone() {
		return nil
	}
	return b.mem
}

// Close unmaps the memory; a *BusyError names the regions that are left on it.
//
// Implements: void ibv_free_buf(struct ibv_buf *buf)
func (b *Buffer) Close() error {
	return b.life().close(func() error {
		if !b.h.IsNil() {
			return b.h.Free()
		}
		return unmapMemory(b.mem)
	})
}
