package ibv

import (
	"os"

	"github.com/railbind/railbind/cgo"
)

// Objects can be shared between processes where the provider knows how to (of
// rdma-core's, mlx5's does): one process opens the device, passes File over a
// Unix socket together with the Handles of its domains and regions, and another
// imports them. Elsewhere the errors match errors.ErrUnsupported. An imported
// object ends with the original; Close lets the import go and destroys nothing.

// File duplicates the descriptor of the device's context, for another process to
// import. The file is the caller's to close.
func (c *Context) File() (*os.File, error) {
	const op = "export context"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	fd, err := c.h.DupCmdFD()
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	return os.NewFile(fd, "context of "+c.name), nil
}

// ImportDevice makes a context of one that another process has open. f stays the
// caller's.
//
// Implements: struct ibv_context *ibv_import_device(int cmd_fd)
func ImportDevice(f *os.File) (*Context, error) {
	const op = "import device"
	if f == nil {
		return nil, &Error{Op: op, Object: "nil file", Kind: ErrClosed}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, &Error{Op: op, Object: f.Name(), Err: err}
	}
	var h cgo.Context
	var failed error
	if err = raw.Control(func(fd uintptr) { h, failed = cgo.ImportDevice(fd) }); err != nil {
		return nil, &Error{Op: op, Object: f.Name(), Kind: ErrClosed, Err: err}
	}
	if failed != nil {
		return nil, &Error{Op: op, Object: f.Name(), Err: failed}
	}
	return newContext(h.Name(), h, h.Close), nil
}

// Handle is the kernel's number of the domain, to be imported with ImportPD.
func (p *PD) Handle() (uint32, error) {
	if err := p.life().enter("PD's handle"); err != nil {
		return 0, err
	}
	defer p.node.leave()
	return p.h.Handle(), nil
}

// ImportPD makes a domain of one that the process has from which the context was
// imported.
//
// Implements: struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
// and void ibv_unimport_pd(struct ibv_pd *pd)
func (c *Context) ImportPD(handle uint32) (*PD, error) {
	const op = "import PD"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.ImportPD(handle)
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	return newPD(c, h, h.Unimport), nil
}

// ImportMR makes a region of one that the process has from which the context was
// imported. The memory is where that process has it, shared with this one or
// not: Bytes is nil.
//
// Implements: struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
// and void ibv_unimport_mr(struct ibv_mr *mr)
func (p *PD) ImportMR(handle uint32) (*MR, error) {
	const op = "import MR"
	if err := p.life().enter(op); err != nil {
		return nil, err
	}
	defer p.node.leave()
	h, lkey, rkey, err := p.h.ImportMR(handle)
	if err != nil {
		return nil, fail(op, p.node.name, err)
	}
	addr, size := h.Range()
	return makeMR(p, region{h: h, size: int(size), addr: uint64(addr), lkey: lkey, rkey: rkey, destroy: h.Unimport}), nil
}

// ImportDM makes device memory of what the process has from which the context
// was imported, size bytes.
//
// Implements: struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
// and void ibv_unimport_dm(struct ibv_dm *dm)
func (c *Context) ImportDM(handle uint32, size int) (*DeviceMemory, error) {
	const op = "import device memory"
	if err := c.life().enter(op); err != nil {
		return nil, err
	}
	defer c.node.leave()
	h, err := c.h.ImportDM(handle)
	if err != nil {
		return nil, fail(op, c.name, err)
	}
	return newDM(c, h, size, h.Unimport), nil
}
