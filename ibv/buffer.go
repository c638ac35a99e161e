package ibv

import "fmt"

// Buffer is memory outside the Go heap, for registration. Safe for concurrent
// use.
type Buffer struct {
	node *node
	mem  []byte
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
	return watch(&Buffer{n, mem}, n), nil
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
func (b *Buffer) Close() error {
	return b.life().close(func() error { return unmapMemory(b.mem) })
}
