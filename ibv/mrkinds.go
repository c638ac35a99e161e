package ibv

import (
	"errors"
	"math"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// wholeSpace is the size of a region of the whole address space.
const wholeSpace = math.MaxInt

// RegisterAt registers a Go slice, as Register does, under other addresses: the
// device and the peer name its first byte iova (0 for a zero-based region). The
// kernel wants iova and the slice at the same place within a page.
//
// Implements: struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
// and struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (p *PD) RegisterAt(b []byte, iova uint64, access Access) (*MR, error) {
	if len(b) == 0 {
		return nil, invalid("register memory", p.name(), ErrInvalid, "the slice is empty")
	}
	pin := new(runtime.Pinner)
	pin.Pin(unsafe.SliceData(b))
	m, err := p.registerAt(b, iova, access, func() error { pin.Unpin(); return nil })
	if err != nil {
		pin.Unpin()
	}
	return m, err
}

// RegisterBufferAt is RegisterBuffer under other addresses; see RegisterAt. A
// Buffer begins with a page, so that any iova on a page boundary will do.
//
// Implements: struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
// and struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (p *PD) RegisterBufferAt(b *Buffer, iova uint64, access Access) (*MR, error) {
	if err := b.life().enter("register memory"); err != nil {
		return nil, err
	}
	defer b.node.leave()
	return p.registerAt(b.mem, iova, access, nil, b.node)
}

func (p *PD) registerAt(mem []byte, iova uint64, access Access, free func() error, parents ...*node) (*MR, error) {
	const op = "register memory"
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	page := uint64(os.Getpagesize())
	if iova%page != uint64(addr)%page {
		return nil, invalid(op, p.name(), ErrInvalid, "iova %#x is %d bytes into a page, the memory %d", iova, iova%page, uint64(addr)%page)
	}
	if iova+uint64(len(mem)) < iova {
		return nil, invalid(op, p.name(), ErrInvalid, "%d bytes from iova %#x wrap around", len(mem), iova)
	}
	return p.registerWith(op, region{mem: mem, size: len(mem), addr: iova, access: access, free: free},
		func(access uint32) (cgo.MR, uint32, uint32, error) {
			return p.h.RegMRIOVA(addr, uintptr(len(mem)), iova, access)
		}, parents...)
}

// RegisterImplicit makes a region of the whole address space, whose pages the
// device asks for as it needs them; OnDemand is implied. SGEs of it are at
// addresses: SGEOf makes one. It keeps no memory in place: that is the
// program's to do, with a Buffer. Where the device has no such thing, the error
// matches errors.ErrUnsupported.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (p *PD) RegisterImplicit(access Access) (*MR, error) {
	return p.registerWith("register the address space", region{size: wholeSpace, access: access | OnDemand},
		func(access uint32) (cgo.MR, uint32, uint32, error) {
			return p.h.RegMRIOVA(0, ^uintptr(0), 0, access)
		})
}

// SGEOf names memory of this process in a region that has it: b must be memory
// outside Go's heap, or within the region's own.
func (m *MR) SGEOf(b []byte) SGE {
	return SGE{MR: m, Offset: int(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) - m.Addr()), Length: len(b)}
}

// RegisterDMABuf registers length bytes of a dma-buf, memory of another device,
// from offset on; the device and the peer name its first byte iova. fd stays the
// caller's. Where kernel, driver or rdma-core do not know dma-bufs, the error
// matches errors.ErrUnsupported; nothing is pinned instead.
//
// Implements: struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
func (p *PD) RegisterDMABuf(fd int, offset uint64, length int, iova uint64, access Access) (*MR, error) {
	const op = "register dma-buf"
	if length <= 0 {
		return nil, invalid(op, p.name(), ErrInvalid, "%d bytes", length)
	}
	m, err := p.registerWith(op, region{size: length, addr: iova, access: access},
		func(access uint32) (cgo.MR, uint32, uint32, error) {
			return p.h.RegDMABufMR(fd, offset, length, iova, access)
		})
	return m, unknownCall(err)
}

// unknownCall makes errors.ErrUnsupported of what a kernel says to a call that it
// does not know.
func unknownCall(err error) error {
	var e *Error
	if errors.As(err, &e) && (errors.Is(err, syscall.ENOTTY) || errors.Is(err, syscall.EPROTONOSUPPORT)) {
		e.Kind = errors.ErrUnsupported
	}
	return err
}

// AllocNullMR makes the region that reads as zeros and forgets what is written,
// for the parts of a message that nobody wants. SGEs of it have any offset and
// length. Where the device has none, the error matches errors.ErrUnsupported.
//
// Implements: struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
func (p *PD) AllocNullMR() (*MR, error) {
	return p.registerWith("allocate null MR", region{size: wholeSpace, access: LocalWrite},
		func(uint32) (cgo.MR, uint32, uint32, error) { return p.h.AllocNullMR() })
}
