package ibv

import (
	"errors"
	"fmt"
	"slices"
)

// Severity says how bad a Finding is. The zero value is no severity.
type Severity int

// Severities.
const (
	SeverityOK      Severity = iota + 1 // looked at, and fine
	SeverityNote                        // worth knowing
	SeverityWarning                     // works, and will not in some cases
	SeverityError                       // does not work
)

var severityNames = []string{SeverityOK: "ok", SeverityNote: "note", SeverityWarning: "warning", SeverityError: "error"}

func (s Severity) String() string {
	if s < SeverityOK || s > SeverityError {
		return fmt.Sprintf("Severity(%d)", int(s))
	}
	return severityNames[s]
}

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severityNames, string(text))
	if i < int(SeverityOK) {
		return invalid("read severity", string(text), ErrInvalid, "there are ok, note, warning, error")
	}
	*s = Severity(i)
	return nil
}

// Finding is one thing that Diagnose looked at. What Check names:
//
//	system         this build can use RDMA at all
//	libraries      rdma-core's libraries are there; versions with a fault in our path
//	modules        the kernel's part of verbs and of the connection manager, and the
//	               RDMA driver of each adapter whose network driver is there
//	manager        the connection manager's character device can be opened
//	devices        there is a device
//	device         its character device can be opened, it has a provider and a GUID
//	link           each port is active
//	gid            each port has an address that the connection manager can bind to
//	mtu            what the MTU of the network device leaves for RDMA
//	memlock        how much memory may be registered
//	cgroup         limits of the RDMA controller
//	namespace      RDMA's network namespaces, and the own one
//	kernel         a version with a fault in our path
//	shared-subnet  two rails in one subnet: arp_ignore, arp_announce, rp_filter, accept_local
//	vrf            a VRF's table ends in a default route
//	ipv6           several rails with IPv6: rules that keep a connection on its rail
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	Object   string   `json:"object"`       // of what: "rxe0", "/dev/infiniband/rdma_cm"
	What     string   `json:"what"`         // what was found, and what it means
	Do       []string `json:"do,omitempty"` // shell commands that mend it, as root
	// Err is set where calls fail for this reason, and matches what they return:
	// ErrNoRDMA, ErrDeviceNotAccessible, ErrNoProvider.
	Err error `json:"-"`
}

func (f Finding) String() string {
	return f.Severity.String() + ": " + f.Check + " of " + f.Object + ": " + f.What
}

// Diagnose looks at everything that RDMA needs on this host, as seen by this
// process: kernel, devices, rdma-core, limits, namespaces and addresses. The
// host is ready where no finding is a SeverityError. It changes nothing, and takes
// some milliseconds for each device. The program rb-doctor prints it.
func Diagnose() []Finding { return thisHost().diagnose() }

// diagnosis is a Diagnose under way.
type diagnosis struct {
	*host
	findings []Finding
	devices  []diagnosed
	unlinked error // why this build cannot open devices, nil where it can
	net      []netdev
}

// diagnosed is a device, with what is known of it.
type diagnosed struct {
	name string
	err  error // why it cannot be used
	opened
	rails []netdev // network devices whose addresses it has, in this namespace
}

// rxe and siw tell the kernel's own devices from adapters.
func (d *diagnosis) rxe(dev diagnosed) bool { return d.description(dev) == "rxe" }
func (d *diagnosis) siw(dev diagnosed) bool { return d.description(dev) == "Software iWARP stack" }

func (d *diagnosis) description(dev diagnosed) string {
	return d.read("/sys/class/infiniband", dev.name, "node_desc")
}

// add is a finding; do may be nil.
func (d *diagnosis) add(s Severity, check, object string, do []string, format string, args ...any) *Finding {
	d.findings = append(d.findings, Finding{Severity: s, Check: check, Object: object, What: fmt.Sprintf(format, args...), Do: do})
	return &d.findings[len(d.findings)-1]
}

// addError is a finding of SeverityError that calls report, too.
func (d *diagnosis) addError(check, object string, do []string, e *Error) {
	d.add(SeverityError, check, object, do, "%s", e.cause("")).Err = e
}

func (h *host) diagnose() []Finding {
	d := &diagnosis{host: h, net: h.netdevs()}
	if !d.system() {
		return d.findings
	}
	listed, listErr := d.listed()
	if errors.Is(listErr, errors.ErrUnsupported) && !errors.Is(listErr, ErrNoRDMA) {
		d.unlinked = listErr
	}
	d.libraries(listErr)
	d.modules()
	d.manager()
	d.look(listed)
	d.ports()
	d.process()
	d.namespaces()
	d.versions()
	d.subnets()
	d.routing()
	return d.findings
}
