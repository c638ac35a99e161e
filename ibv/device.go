package ibv

import (
	"errors"
	"strings"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// Device is an RDMA device of this machine.
type Device struct {
	Name      string // the kernel's name, "rxe0"
	CharDev   string // of its character device under /dev/infiniband, "uverbs0"
	Index     int    // the kernel's index, -1 where it does not tell
	GUID      uint64 // node GUID; 0 means that the driver reports none
	NodeType  NodeType
	Transport Transport
}

// Devices lists the RDMA devices that the kernel and an installed provider know,
// openable or not. Without RDMA in the kernel the error matches ErrNoRDMA; a
// kernel with RDMA and no device gives an empty list.
//
// Implements: struct ibv_device **ibv_get_device_list(int *num_devices)
func Devices() ([]Device, error) {
	list, err := cgo.Devices()
	if err != nil {
		return nil, noRDMA("list devices", err)
	}
	out := make([]Device, len(list))
	for i, d := range list {
		out[i] = Device{d.Name, d.DevName, d.Index, d.GUID, NodeType(d.NodeType), Transport(d.Transport)}
	}
	return out, nil
}

// noRDMA tells a machine without RDMA from other failures to list or open.
func noRDMA(op string, err error) error {
	e := &Error{Op: op, Err: err}
	switch {
	case errors.Is(err, cgo.NoLibrary):
		e.Kind = ErrNoRDMA
	case errors.Is(err, syscall.ENOSYS) && cgo.Available:
		e.Kind = ErrNoRDMA
		e.Hint = "load a driver: an HCA's, or rdma_rxe and ib_uverbs (modprobe; package rdma-core); in a container, on the host; rb-doctor looks further"
	}
	return e
}

// openError tells apart why a device could not be opened.
func openError(name string, err error) error {
	const op = "open device"
	e := fail(op, name, err)
	if !cgo.Available {
		return e
	}
	if errors.Is(e, ErrExhausted) || errors.Is(e, syscall.EMFILE) || errors.Is(e, syscall.ENFILE) { // hca_handle of the cgroup, files
		return e
	}
	list, lerr := cgo.Devices()
	if lerr != nil {
		return noRDMA(op, lerr)
	}
	var names []string
	for _, d := range list {
		if d.Name == name {
			dev := "/dev/infiniband/" + d.DevName
			e.Kind = ErrDeviceNotAccessible
			e.Hint = "is " + dev + " there and yours to read and write? in a container: --device=" + dev +
				" --device=/dev/infiniband/rdma_cm; rb-doctor looks further"
			return e
		}
		names = append(names, d.Name)
	}
	if h := thisHost(); name != "" && h.exists("/sys/class/infiniband", name) {
		if e, _ := h.deviceError(name, false); e != nil {
			return e
		}
	}
	e.Kind = ErrNoDevice
	if len(names) == 0 {
		e.Hint = "there is no RDMA device here"
	} else {
		e.Hint = "devices here: " + strings.Join(names, ", ")
	}
	return e
}
