package ibv

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	capIPCLock = 14
	// connPins is what a connection of package cm pins unless told otherwise.
	connPins = 128 << 10
)

// process looks at what this process may do.
func (d *diagnosis) process() {
	d.memlock()
	for _, group := range d.cgroups() {
		d.cgroup(group)
	}
}

func (d *diagnosis) memlock() {
	const object = "this process"
	// A capability of a user namespace does not count for locked memory.
	caps, _ := strconv.ParseUint(d.field("/proc/self/status", "CapEff:"), 16, 64)
	first := slices.Equal(strings.Fields(d.read("/proc/self/uid_map")), []string{"0", "0", "4294967295"})
	limit, _, _ := strings.Cut(d.field("/proc/self/limits", "Max locked memory"), " ")
	bytes, err := strconv.ParseInt(limit, 10, 64)
	switch {
	case caps&(1<<capIPCLock) != 0 && first:
		d.add(SeverityOK, "memlock", object, nil, "may lock memory without limit (CAP_IPC_LOCK)")
		return
	case limit == "unlimited":
		d.add(SeverityOK, "memlock", object, nil, "unlimited")
		return
	case err != nil:
		d.add(SeverityNote, "memlock", object, nil, "cannot be read from /proc/self/limits")
		return
	}
	s := SeverityWarning
	if bytes < 2*connPins {
		s = SeverityError
	}
	d.add(s, "memlock", object, []string{"prlimit --pid $$ --memlock=unlimited"},
		"%d KiB, and each connection registers %d KiB or more, which fails with ErrMemlock beyond it; lastingly: `LimitMEMLOCK=infinity` in a unit, `* - memlock unlimited` in /etc/security/limits.d, --ulimit memlock=-1 for a container", bytes>>10, connPins>>10)
}

// cgroups are the files of the RDMA controller that limit this process, those
// of its parents too.
func (d *diagnosis) cgroups() (out []string) {
	for line := range strings.Lines(d.read("/proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		base := "/sys/fs/cgroup"
		if slices.Contains(strings.Split(f[1], ","), "rdma") {
			base += "/rdma"
		} else if f[1] != "" {
			continue
		}
		for at := path.Join("/", f[2]); ; at = path.Dir(at) {
			if file := path.Join(base, at, "rdma.max"); d.exists(file) {
				out = append(out, file)
			}
			if at == "/" {
				break
			}
		}
	}
	return out
}

// cgroup reads lines like "mlx5_0 hca_handle=2 hca_object=max".
func (d *diagnosis) cgroup(file string) {
	for line := range strings.Lines(d.read(file)) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		s := SeverityOK
		for _, limit := range f[1:] {
			switch _, v, _ := strings.Cut(limit, "="); v {
			case "0":
				s = SeverityError
			case "max":
			default:
				s = max(s, SeverityNote)
			}
		}
		if s == SeverityOK {
			continue
		}
		what := "limited to " + strings.Join(f[1:], ", ") + " by " + file + ": what is over it fails with EAGAIN"
		d.add(s, "cgroup", f[0], []string{"echo '" + f[0] + " hca_handle=max hca_object=max' >" + file}, "%s", what)
	}
}

// namespaces looks at RDMA's network namespaces.
func (d *diagnosis) namespaces() {
	if !d.exists("/sys/module/ib_core/parameters/netns_mode") {
		return
	}
	own := "the host's"
	if d.ownNamespace() {
		own = "another than the host's"
	}
	if d.exclusive() {
		d.add(SeverityNote, "namespace", "kernel", nil, "exclusive: a device is seen in its own network namespace only; this one is %s", own)
		return
	}
	d.add(SeverityOK, "namespace", "kernel", nil, "shared: devices are seen in all network namespaces; this one is %s", own)
	if !d.ownNamespace() || !d.kernelBefore(7, 0) {
		return
	}
	for _, dev := range d.devices {
		if d.rxe(dev) {
			d.add(SeverityWarning, "namespace", dev.name, nil, "before kernel 7, rxe carries no data in another network namespace than the host's, though it resolves addresses there; use the host's (--network host)")
		}
	}
}
