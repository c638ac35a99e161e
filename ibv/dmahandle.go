package ibv

import "github.com/railbind/railbind/cgo"

// DMAHandle tells the device, for the memory regions that it is given to, where
// what it writes is wanted: near which CPU, in which memory (PCIe's TLP processing
// hints). Safe for concurrent use.
type DMAHandle struct {
	node *node
	h    cgo.DMAHandle
	ctx  *Context
}

// MemoryKind is what kind of memory a DMAHandle is for.
type MemoryKind uint8

// Kinds of memory.
const (
	AnyMemory        MemoryKind = 0 // the device is not told
	VolatileMemory   MemoryKind = 1
	PersistentMemory MemoryKind = 2
)

func (k MemoryKind) String() string {
	return name("MemoryKind", map[MemoryKind]string{AnyMemory: "any", VolatileMemory: "volatile", PersistentMemory: "persistent"}, k)
}

// DMAHandleConfig says what a device is told. Of the zero value nothing.
type DMAHandleConfig struct {
	CPU    int // the kernel's number of the CPU whose cache wants the data
	SetCPU bool

	Hint    uint8 // the processing hint, 0 to 3
	SetHint bool

	Memory MemoryKind
}

// Bits of enum ibv_dmah_init_attr_mask.
const (
	dmahCPU    = 1 << 0
	dmahHint   = 1 << 1
	dmahMemory = 1 << 2
)

func (d *DMAHandle) life() *node {
	if d == nil {
		return nil
	}
	return d.node
}

// AllocDMAHandle makes a DMA handle, for PD.RegisterBufferWith. It needs rdma-core
// 59, a kernel and a device that know of it; without, the error matches
// errors.ErrUnsupported. No software device does.
//
// Implements: struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
func (c *Context) AllocDMAHandle(cfg DMAHandleConfig) (*DMAHandle, error) {
	const op = "allocate DMA handle"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	var a cgo.DMAHandleAttr
	if cfg.SetCPU {
		if cfg.CPU < 0 || cfg.CPU > 1<<30 {
			return nil, invalid(op, c.name, ErrInvalid, "CPU %d", cfg.CPU)
		}
		a.Mask, a.CPU = dmahCPU, uint32(cfg.CPU)
	}
	if cfg.SetHint {
		if cfg.Hint > 3 {
			return nil, invalid(op, c.name, ErrInvalid, "processing hint %d, of 2 bits", cfg.Hint)
		}
		a.Mask, a.Hint = a.Mask|dmahHint, cfg.Hint
	}
	if cfg.Memory != AnyMemory {
		if cfg.Memory > PersistentMemory {
			return nil, invalid(op, c.name, ErrInvalid, "%v", cfg.Memory)
		}
		a.Mask, a.Kind = a.Mask|dmahMemory, uint8(cfg.Memory-VolatileMemory)
	}
	h, err := c.h.AllocDMAHandle(a)
	if err != nil {
		return nil, unknownCall(fail(op, c.name, err))
	}
	n := newNode("DMA handle on "+c.name, nil, c.node)
	return watch(&DMAHandle{n, h, c}, n), nil
}

// Close frees the handle; a *BusyError names the regions that are left.
//
// Implements: int ibv_dealloc_dmah(struct ibv_dmah *dmah)
func (d *DMAHandle) Close() error {
	return d.life().close(func() error {
		if err := d.h.Dealloc(); err != nil {
			return fail("free DMA handle", d.node.name, err)
		}
		return nil
	})
}

// RegisterBufferWith is RegisterBuffer with a DMA handle (nil for none), by the
// call that takes one. It needs rdma-core 59: an older one is
// errors.ErrUnsupported. Neither buffer nor handle can be closed before the region.
//
// Implements: struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr)
func (p *PD) RegisterBufferWith(b *Buffer, d *DMAHandle, access Access) (*MR, error) {
	const op = "register memory"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	var h cgo.DMAHandle
	var parents []*node
	if d != nil {
		if err := d.life().enter(op); err != nil {
			return nil, err
		}
		defer d.node.leave()
		if err := sameContext(op, d.node.name, p.ctx, d.ctx); err != nil {
			return nil, err
		}
		h, parents = d.h, append(parents, d.node)
	}
	return p.registerBuffer(b, access, func(addr uintptr, access uint32) (cgo.MR, uint32, uint32, error) {
		return p.h.RegMREx(addr, len(b.mem), b.h, h, access)
	}, parents...)
}
