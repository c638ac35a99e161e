package ibv

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// MR is a memory region: memory that the device may use. Safe for concurrent
// use; what the device and the program do to its bytes is theirs to agree on.
type MR struct {
	held
	mem     []byte
	addr    uint64
	lkey    uint32
	rkey    uint32
	access  Access
	destroy func() error
}

// backing is what a region's memory hangs on.
type backing struct {
	mem  []byte
	free func() error // unpins or unmaps; nil where a Buffer owns the memory
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
	mem, err := mapMemory(size, false)
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
// region.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (p *PD) RegisterBuffer(b *Buffer, access Access) (*MR, error) {
	if err := b.life().enter("register memory"); err != nil {
		return nil, err
	}
	defer b.node.leave()
	return p.register(b.mem, access, nil, b.node)
}

func (p *PD) name() string {
	if p == nil || p.node == nil {
		return "nil PD"
	}
	return p.node.name
}

func (p *PD) register(mem []byte, access Access, free func() error, parents ...*node) (*MR, error) {
	const op = "register memory"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	access = access.full()
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	h, lkey, rkey, err := p.h.RegMR(addr, len(mem), uint32(access))
	if err != nil {
		return nil, registerError(op, p.node.name, mem, err)
	}
	return newMR(p, mem, access, lkey, rkey, h.Dereg, free, parents...), nil
}

// newMR makes the region; its node keeps the memory, and the pin that free
// holds, for as long as the region exists, whatever becomes of the MR.
func newMR(p *PD, mem []byte, access Access, lkey, rkey uint32, destroy, free func() error, parents ...*node) *MR {
	n := newNode(fmt.Sprintf("MR of %d bytes (lkey %#x) on %s", len(mem), lkey, p.ctx.name),
		backing{mem, free}, append(parents, p.node)...)
	return watch(&MR{
		held: held{node: n, pd: p, uses: make(map[*use]struct{})}, mem: mem, addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		lkey: lkey, rkey: rkey, access: access, destroy: destroy,
	}, n)
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
func (m *MR) Close() error {
	return m.life().close(func() error {
		if err := m.closeWith("deregister memory", m.destroy); err != nil {
			return err
		}
		if free := m.node.keep.(backing).free; free != nil {
			return free()
		}
		return nil
	})
}

// Bytes is the region's memory, nil once the region is closed. Where AllocMR or
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
	return len(m.mem)
}

// Addr is the address of the region's first byte, as the peer names it.
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

// Remote names the region's memory from offset on, for the peer's READs, WRITEs
// and atomics. How it gets to the peer is the program's business.
func (m *MR) Remote(offset int) Remote {
	return Remote{Addr: m.Addr() + uint64(offset), RKey: m.RKey()}
}

// SGE is a piece of a memory region: a scatter/gather entry.
type SGE struct {
	MR     *MR
	Offset int
	Length int
}

// Remote is memory of the peer.
type Remote struct {
	Addr uint64
	RKey uint32
}
