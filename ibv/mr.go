package ibv

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// MR is a memory region: memory that the device may use. Safe for concurrent
// use; what the device and the program do to its bytes is theirs to agree on.
type MR struct {
	held
	region
}

// region is what a region is made of.
type region struct {
	h       cgo.MR
	mem     []byte // nil where this process has no such memory
	size    int
	addr    uint64 // of the first byte, as the device and the peer name it
	lkey    uint32
	rkey    uint32
	access  Access
	destroy func() error
	free    func() error // unpins or unmaps; nil where the memory is somebody else's
}

// backing keeps a region's memory, and what pins it, reachable.
type backing struct {
	mem  []byte
	free func() error
}

func (m *MR) life() *node {
	if m == nil {
		return nil
	}
	return m.node
}

// Register registers a Go slice, which stays pinned until the region is closed.
// The slice must not be empty. Pages that the slice shares with other objects
// become reachable to the device too, as far as it keeps to the bounds.
//
// Out of lockable memory, the error is a *MemlockError.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (p *PD) Register(b []byte, access Access) (*MR, error) {
	if len(b) == 0 {
		return nil, invalid("register memory", p.name(), ErrInvalid, "the slice is empty")
	}
	pin := new(runtime.Pinner)
	pin.Pin(unsafe.SliceData(b))
	m, err := p.register(b, access, func() error { pin.Unpin(); return nil })
	if err != nil {
		pin.Unpin()
	}
	return m, err
}

// AllocMR maps a buffer of size bytes outside the Go heap and registers it. The
// buffer is the region's: Close unmaps it, and Bytes must not be used after.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (p *PD) AllocMR(size int, access Access) (*MR, error) {
	mem, err := mapMemory(size, BufferConfig{})
	if err != nil {
		return nil, err
	}
	m, err := p.register(mem, access, func() error { return unmapMemory(mem) })
	if err != nil {
		return nil, errors.Join(err, unmapMemory(mem))
	}
	return m, nil
}

// RegisterBuffer registers a whole Buffer, which cannot be closed before the
// region. One of AllocBuffer is registered by its own domain.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
// and struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access)
func (p *PD) RegisterBuffer(b *Buffer, access Access) (*MR, error) {
	return p.registerBuffer(b, access, func(addr uintptr, access uint32) (cgo.MR, uint32, uint32, error) {
		if b.h.IsNil() {
			return p.h.RegMR(addr, len(b.mem), access)
		}
		return p.h.RegBufMR(b.h, addr, len(b.mem), access)
	})
}

func (p *PD) registerBuffer(b *Buffer, access Access, register func(addr uintptr, access uint32) (cgo.MR, uint32, uint32, error), parents ...*node) (*MR, error) {
	const op = "register memory"
	if err := b.life().enter(op); err != nil {
		return nil, err
	}
	defer b.node.leave()
	if b.pd != nil && b.pd != p {
		return nil, &Error{Op: op, Object: p.name(), Kind: ErrForeignPD, Hint: "the buffer was allocated by " + b.pd.node.name}
	}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))
	return p.registerWith(op, region{mem: b.mem, size: len(b.mem), addr: uint64(addr), access: access},
		func(access uint32) (cgo.MR, uint32, uint32, error) { return register(addr, access) }, append(parents, b.node)...)
}

func (p *PD) name() string {
	if p == nil || p.node == nil {
		return "nil PD"
	}
	return p.node.name
}

func (p *PD) register(mem []byte, access Access, free func() error, parents ...*node) (*MR, error) {
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	return p.registerWith("register memory", region{mem: mem, size: len(mem), addr: uint64(addr), access: access, free: free},
		func(access uint32) (cgo.MR, uint32, uint32, error) { return p.h.RegMR(addr, len(mem), access) }, parents...)
}

// registerWith makes the region that register registers.
func (p *PD) registerWith(op string, r region, register func(access uint32) (cgo.MR, uint32, uint32, error), parents ...*node) (*MR, error) {
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	r.access = r.access.full()
	if err := p.demand(op, r.access, r.size == wholeSpace); err != nil {
		return nil, err
	}
	lim, err := p.ctx.known()
	if err != nil {
		return nil, err
	}
	if most := lim.dev.MaxMRSize; most != 0 && uint64(r.size) > most && r.size != wholeSpace {
		return nil, invalid(op, p.node.name, ErrTooLong, "%d bytes, a region of this device has at most %d", r.size, most)
	}
	r.h, r.lkey, r.rkey, err = register(uint32(r.access))
	if err != nil {
		return nil, registerError(op, p.node.name, r.mem, err)
	}
	if r.destroy == nil {
		r.destroy = p.ctx.deregister(r.h)
	}
	return makeMR(p, r, parents...), nil
}

// makeMR makes the region; its node keeps the memory, and the pin that free
// holds, for as long as the region exists, whatever becomes of the MR.
func makeMR(p *PD, r region, parents ...*node) *MR {
	n := newNode(fmt.Sprintf("MR of %d bytes (lkey %#x) on %s", r.size, r.lkey, p.ctx.name),
		backing{r.mem, r.free}, append(parents, p.node)...)
	return watch(&MR{held: newHeld(n, p), region: r}, n)
}

// registerError explains the two failures that a bare errno hides.
func registerError(op, object string, mem []byte, err error) error {
	switch {
	case errors.Is(err, syscall.ENOMEM):
		if limit, pinned := memlock(); limit >= 0 {
			return &MemlockError{Object: object, Asked: int64(len(mem)), Pinned: pinned, Limit: limit, Err: err}
		}
	case errors.Is(err, syscall.EINVAL) && isHuge(mem):
		// The library does not always tell whether its fork support is on.
		return &Error{Op: op, Object: object, Err: err,
			Hint: "the memory is on huge pages: with fork support on (IBV_FORK_SAFE, RDMAV_FORK_SAFE, ibv_fork_init) " +
				"it needs RDMAV_HUGEPAGES_SAFE=1 as well"}
	}
	return fail(op, object, err)
}

// Close deregisters the region. It refuses with ErrBusy while a request that
// uses it is in flight: poll its completion or close the queue pair.
//
// Implements: int ibv_dereg_mr(struct ibv_mr *mr)
// and static inline int rdma_dereg_mr(struct ibv_mr *mr)
func (m *MR) Close() error {
	return m.life().close(func() error {
		if err := m.closeWith("deregister memory", m.destroy); err != nil {
			return err
		}
		if m.free != nil {
			return m.free()
		}
		return nil
	})
}

// Bytes is the region's memory, nil once the region is closed and where this
// process has no such memory (dma-buf, device memory and the like). Where AllocMR or
// a Buffer made it, slices taken before must not be used after Close: the memory
// is unmapped.
func (m *MR) Bytes() []byte {
	if m.life().gone() {
		return nil
	}
	return m.mem
}

// Len is the region's size in bytes.
func (m *MR) Len() int {
	if m == nil {
		return 0
	}
	return m.size
}

// Addr is the address of the region's first byte, as the device and the peer
// name it.
func (m *MR) Addr() uint64 {
	if m == nil {
		return 0
	}
	return m.addr
}

// LKey and RKey name the region to the own device and to the peer.
func (m *MR) LKey() uint32 {
	if m == nil {
		return 0
	}
	return m.lkey
}

// RKey names the region to the peer.
func (m *MR) RKey() uint32 {
	if m == nil {
		return 0
	}
	return m.rkey
}

// Access returns the rights that the region was registered with, those that
// were implied included.
func (m *MR) Access() Access {
	if m == nil {
		return 0
	}
	return m.access
}

// SGE names length bytes of the region from offset on. Bounds are checked where
// the SGE is used.
func (m *MR) SGE(offset, length int) SGE { return SGE{m, offset, length} }

// inside reports whether length places from offset on lie within size.
func inside(offset, length, size int) bool {
	return uint(offset) <= uint(size) && uint(length) <= uint(size-offset)
}

// SGE is a piece of a memory region: a scatter/gather entry.
type SGE struct {
	MR     *MR
	Offset int
	Length int
}
