package cm

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/ibv"
)

// sysDevices is where the kernel shows its RDMA devices, openable or not.
const sysDevices = "/sys/class/infiniband"

// noneOpens says why none of the kernel's devices can be opened, nil where there
// is none, or one that can.
func noneOpens() error {
	list, _ := os.ReadDir(sysDevices)
	var all []error
	for _, d := range list {
		err := ibv.Accessible(d.Name())
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// InaccessiblePorts lists the ports of the RDMA devices of h's namespace that this
// process cannot open. It is asked where a refusal is to be explained.
func (h *host) InaccessiblePorts() []policy.InaccessiblePort {
	links, err := h.RDMALinks()
	if err != nil {
		return nil
	}
	open := map[int]bool{}
	if devs, err := knownDevices(h, links); err == nil {
		for _, d := range devs {
			open[d.index] = true
			d.ctx.Drop()
		}
	}
	var out []policy.InaccessiblePort
	for _, l := range links {
		if open[l.Index] {
			continue
		}
		err := ibv.Accessible(l.Name)
		if err == nil {
			continue
		}
		for _, p := range l.Ports {
			port := policy.RDMAPort{Device: l.Name, DeviceIndex: l.Index, GUID: l.GUID, Port: p.Port, Active: p.Active, Netdev: p.Netdev}
			port.GIDs = h.shownGIDs(l.Name, p.Port)
			out = append(out, policy.InaccessiblePort{RDMAPort: port, Err: err})
		}
	}
	return out
}

// shownGIDs are the rows of a GID table that the kernel shows without the device
// being open.
func (h *host) shownGIDs(device string, port uint8) (out []policy.GIDRow) {
	dir := filepath.Join(sysDevices, device, "ports", strconv.Itoa(int(port)))
	list, _ := os.ReadDir(filepath.Join(dir, "gids"))
	for _, e := range list {
		row, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		gid, err := netip.ParseAddr(line(dir, "gids", e.Name()))
		if err != nil || gid.IsUnspecified() {
			continue
		}
		r := policy.GIDRow{GID: policy.GIDOf(gid), Index: row, Port: port}
		if i, err := h.InterfaceByName(line(dir, "gid_attrs/ndevs", e.Name())); err == nil {
			r.Netdev = i.Index
		}
		out = append(out, r)
	}
	return out
}

// line is the text of a file of one line, empty where it cannot be read.
func line(path ...string) string {
	b, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(b))
}
