package ibv

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

const (
	devDir     = "/dev/infiniband"
	managerDev = devDir + "/rdma_cm"
)

// system tells whether it makes sense to look further.
func (d *diagnosis) system() bool {
	object := "this program"
	if runtime.GOOS != "linux" {
		object = runtime.GOOS
	}
	if !cgo.Available {
		d.add(SeverityError, "system", object, nil, "%s", cgo.NotBuilt()).Err = errors.ErrUnsupported
	}
	return runtime.GOOS == "linux"
}

// drivers are the RDMA drivers of adapters, by the network driver beside them.
var drivers = []struct{ net, rdma string }{
	{"bnxt_en", "bnxt_re"}, {"cxgb4", "iw_cxgb4"}, {"hns3", "hns_roce_hw_v2"}, {"i40e", "irdma"}, {"ice", "irdma"},
	{"mana", "mana_ib"}, {"mlx4_core", "mlx4_ib"}, {"mlx5_core", "mlx5_ib"}, {"qede", "qedr"}, {"ionic", "ionic_rdma"},
}

// modules goes by what a module does: one that is built in shows in no list.
func (d *diagnosis) modules() {
	need := []struct{ shows, module, what string }{
		{"/sys/class/infiniband", "ib_core", "RDMA"},
		{"/sys/class/infiniband_verbs", "ib_uverbs", "verbs for programs"},
		{"/sys/class/misc/rdma_cm", "rdma_ucm", "the connection manager for programs"},
	}
	fine := true
	for _, n := range need {
		if !d.exists(n.shows) {
			fine = false
			d.addError("modules", n.module, []string{"modprobe " + n.module}, &Error{Op: "load module", Object: n.module, Kind: ErrNoRDMA,
				Hint: n.what + " is not loaded; in a container, load it on the host"})
		}
	}
	for _, n := range drivers {
		if d.exists("/sys/module", n.net) && !d.exists("/sys/module", n.rdma) && d.adapter(n.net) {
			fine = false
			d.add(SeverityWarning, "modules", n.rdma, []string{"modprobe " + n.rdma},
				"there is an adapter of %s, and the RDMA driver for such is not loaded", n.net)
		}
	}
	if fine {
		d.add(SeverityOK, "modules", "kernel", nil, "verbs and connection manager are loaded")
	}
}

// adapter tells whether a driver has a device.
func (d *diagnosis) adapter(driver string) bool {
	return slices.ContainsFunc(d.names("/sys/bus/pci/drivers", driver), func(s string) bool { return strings.Contains(s, ":") })
}

func (d *diagnosis) manager() {
	if !d.exists("/sys/class/misc/rdma_cm") {
		return // said by modules
	}
	number := d.read("/sys/class/misc/rdma_cm/dev")
	if e, do := d.openNode("open device node", managerDev, managerDev, number); e != nil {
		d.addError("manager", managerDev, do, e)
		return
	}
	d.add(SeverityOK, "manager", managerDev, nil, "can be opened")
}

// openNode tries a character device, and says what mends it; number is the
// kernel's for it.
func (h *host) openNode(op, object, path, number string) (*Error, []string) {
	f, err := os.OpenFile(h.path(path), os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
		return nil, nil
	}
	e := &Error{Op: op, Object: object, Kind: ErrDeviceNotAccessible, Err: err}
	flags := "--device=" + path
	if path != managerDev {
		flags += " --device=" + managerDev
	}
	inContainer := "in a container: " + flags
	switch {
	case errors.Is(err, os.ErrNotExist) && h.contained(): // what is made here, the cgroup would deny
		e.Hint = "character device missing; start the container with " + flags
		return e, nil
	case errors.Is(err, os.ErrNotExist):
		e.Hint = "character device missing; " + inContainer
		var do []string
		if major, minor, ok := strings.Cut(number, ":"); ok {
			do = []string{"mkdir -p " + devDir, fmt.Sprintf("mknod -m 666 %s c %s %s", path, major, minor)}
		}
		return e, do
	case errors.Is(err, syscall.EPERM):
		e.Hint = "a device rule of the container's cgroup, a device of another network namespace where RDMA's are exclusive (rdma system show), or a file that is no such device; " + inContainer
		return e, nil
	}
	e.Hint = "is " + path + " yours to read and write? " + inContainer
	return e, []string{"chmod 666 " + path}
}

// charDev is the character device of a device, "uverbs0"; empty for none.
func (h *host) charDev(device string) string {
	for _, name := range h.names("/sys/class/infiniband_verbs") {
		if h.read("/sys/class/infiniband_verbs", name, "ibdev") == device {
			return name
		}
	}
	return ""
}

// deviceError says why a device that the kernel has cannot be used, and what
// mends it.
func (h *host) deviceError(name string, listed bool) (*Error, []string) {
	const op = "diagnose device"
	char := h.charDev(name)
	if char == "" {
		return &Error{Op: op, Object: name, Kind: ErrDeviceNotAccessible,
			Hint: "the kernel shows no character device for it: load ib_uverbs"}, []string{"modprobe ib_uverbs"}
	}
	number := h.read("/sys/class/infiniband_verbs", char, "dev")
	if e, do := h.openNode(op, name, devDir+"/"+char, number); e != nil {
		return e, do
	}
	if !listed {
		return &Error{Op: op, Object: name, Kind: ErrNoProvider,
			Hint: "the kernel has it, libibverbs has no provider for it: install rdma-core's (Debian: ibverbs-providers), as new as the kernel's driver"}, []string{"apt-get install -y ibverbs-providers"}
	}
	return nil, nil
}

// Accessible says why the device called name cannot be opened and what mends it, in
// the words of Diagnose: the error matches ErrDeviceNotAccessible or ErrNoProvider.
// It is nil where the character device can be opened, and costs no more than that:
// Open can take 5 s to fail, since libibverbs waits for a character device to come.
func Accessible(name string) error {
	h := thisHost()
	listed, err := h.listed()
	if err != nil {
		return err
	}
	if e, _ := h.deviceError(name, slices.Contains(listed, name)); e != nil {
		return e
	}
	return nil
}

// unlisted says what is wrong with the devices that are not among those listed.
func (h *host) unlisted(listed []string) (out []string) {
	for _, name := range h.names("/sys/class/infiniband") {
		if slices.Contains(listed, name) {
			continue
		}
		if e, _ := h.deviceError(name, false); e != nil {
			out = append(out, e.Error())
		}
	}
	return out
}

// look opens the devices.
func (d *diagnosis) look(listed []string) {
	names := d.names("/sys/class/infiniband")
	if len(names) == 0 {
		d.noDevice()
		return
	}
	usable := false
	for _, name := range names {
		dev := diagnosed{name: name}
		e, do := d.deviceError(name, d.unlinked != nil || slices.Contains(listed, name))
		switch {
		case e != nil:
		case d.unlinked != nil: // by no fault of the device, which may be fine
			usable, dev.err = true, d.unlinked
			d.devices = append(d.devices, dev)
			continue
		default:
			if dev.opened, dev.err = d.open(name); dev.err != nil {
				e = &Error{Op: "open device", Object: name, Kind: ErrDeviceNotAccessible, Err: dev.err}
			}
		}
		if e != nil {
			dev.err = e
			d.addError("device", name, do, e)
		} else {
			usable = true
			dev.rails = d.railsOf(dev.opened)
			d.node(dev)
		}
		d.devices = append(d.devices, dev)
	}
	if !usable {
		return
	}
	// A container is meant to use the devices that it was given.
	for i := range d.findings {
		if f := &d.findings[i]; f.Check == "device" && f.Severity == SeverityError && errors.Is(f.Err, ErrDeviceNotAccessible) {
			f.Severity = SeverityWarning
		}
	}
	d.add(SeverityOK, "devices", "kernel", nil, "%s", strings.Join(names, ", "))
}

func (d *diagnosis) noDevice() {
	e := &Error{Op: "list devices", Kind: ErrNoRDMA, Hint: "there is no RDMA device: load the adapter's driver, or make a software device"}
	if d.exclusive() && d.ownNamespace() {
		e.Hint = "RDMA's network namespaces are exclusive, and no device is in this one: move one here (rdma dev set NAME netns NAMESPACE), run in the host's (--network host), or share all (rdma system set netns shared, with no other namespace there)"
		d.addError("devices", "kernel", nil, e)
		return
	}
	netdev := "NETDEV"
	for _, n := range d.net {
		if len(n.prefixes) > 0 && len(n.HardwareAddr) == 6 {
			netdev = n.Name
			break
		}
	}
	d.addError("devices", "kernel", []string{"modprobe -a rdma_rxe ib_uverbs rdma_ucm", "rdma link add rxe0 type rxe netdev " + netdev}, e)
}

// node is what is to be said of a device that can be opened.
func (d *diagnosis) node(dev diagnosed) {
	if dev.guid != 0 {
		d.add(SeverityOK, "device", dev.name, nil, "can be opened, node GUID %016x", dev.guid)
		return
	}
	s, what := SeverityWarning, "has no node GUID"
	if v, ok := d.version("librdmacm"); ok && v < 56 {
		s, what = SeverityError, "has no node GUID, which ends programs in librdmacm before 56; set the virtual function's, or install a newer rdma-core"
	}
	d.add(s, "device", dev.name, nil, "%s", what)
}

// railsOf finds the network devices whose addresses a device has. Rows name an
// index that can be another namespace's, so the address must be here as well.
func (d *diagnosis) railsOf(in opened) (out []netdev) {
	for _, n := range d.net {
		for _, e := range in.table {
			if in.transport == TransportIWARP && len(n.HardwareAddr) == 6 && string(e.GID[:6]) == string(n.HardwareAddr) ||
				e.Netdev == n.Index && n.has(e.GID.Addr()) {
				out = append(out, n)
				break
			}
		}
	}
	return out
}

func (n netdev) has(a netip.Addr) bool {
	return slices.ContainsFunc(n.prefixes, func(p netip.Prefix) bool { return p.Addr() == a })
}
