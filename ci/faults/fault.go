//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// hosts are where faults happen. A fault of rail 1 leaves rail 0 alone, and the
// connections there must not notice.
type hosts struct {
	agent *rpc.Client
	kind  string // rxe or siw
	files syscall.Rlimit
}

// call asks the agent in host 2.
func (h *hosts) call(method string, arg any) error {
	return h.agent.Call("Agent."+method, arg, &struct{}{})
}

// shell runs a command in a host, whose number it has for HOST, and the kind of
// devices for KIND.
func (h *hosts) shell(host int, command string) error {
	command = strings.NewReplacer("HOST", strconv.Itoa(host), "KIND", h.kind).Replace(command)
	if host == 1 {
		return shell(command)
	}
	return h.call("Shell", command)
}

// both runs a command in each host.
func (h *hosts) both(command string) error {
	if err := h.shell(1, command); err != nil {
		return err
	}
	return h.shell(2, command)
}

type fault struct {
	name, what   string
	rail1        bool // rail 0 has none of it
	final        bool // nobody is there afterwards
	strike, mend func(*hosts) error
}

const (
	// IPv6 addresses go with a link that is down.
	linkUp = `ip link set rail1 up
		ip address replace fd10:1::HOST/64 dev rail1 nodad
		ip address replace fe80::HOST/64 dev rail1 nodad
		` + anew
	addressGone = "ip address del 10.10.1.HOST/24 dev rail1; ip address del fd10:1::HOST/64 dev rail1"
	addressBack = `ip address replace 10.10.1.HOST/24 dev rail1
		ip address replace fd10:1::HOST/64 dev rail1 nodad
		` + anew

	deviceGone = "timeout 30 rdma link delete KIND1"
	deviceBack = "rdma link add KIND1 type KIND netdev rail1"
	// Soft-RoCE's device is mute for the connection manager once a message of that
	// could not leave: it has to be made anew.
	anew = "case KIND in rxe) " + deviceGone + "; " + deviceBack + ";; esac"
)

// faults are in the order in which they are made.
var faults = append([]fault{
	{name: "none", what: "nothing: what the machine does alone", strike: nothing, mend: nothing},
	{
		name: "peer-killed", what: "the peer's process is killed, another is started",
		strike: func(h *hosts) error { return h.call("Kill", struct{}{}) },
		mend:   func(h *hosts) error { return h.call("Start", struct{}{}) },
	},
	{
		name: "listener-restarted", what: "the peer's listeners are closed and opened again",
		strike: func(h *hosts) error { return h.call("Relisten", struct{}{}) },
		mend:   nothing,
	},
	onRail1(1, "link-down", "this host's link goes down and up", "ip link set rail1 down", linkUp),
	onRail1(2, "peer-link-down", "the peer's link goes down and up", "ip link set rail1 down", linkUp),
	onRail1(1, "address-removed", "this host's addresses go and return", addressGone, addressBack),
	onRail1(2, "peer-address-removed", "the peer's addresses go and return", addressGone, addressBack),
	onRail1(1, "neighbour-changed", "the peer seems to have another MAC address",
		"for a in 10.10.1.2 fd10:1::2; do ip neighbour replace $a lladdr 52:54:00:99:99:99 nud permanent dev rail1; done",
		"for a in 10.10.1.2 fd10:1::2; do ip neighbour del $a dev rail1; done"),
	onRail1(1, "device-removed", "this host's RDMA device is deleted and made anew", deviceGone, deviceBack),
	onRail1(2, "peer-device-removed", "the peer's RDMA device is deleted and made anew", deviceGone, deviceBack),
	{
		name: "clock-stepped", what: "both clocks jump an hour ahead, and back",
		strike: func(h *hosts) error { return h.both("date -s @$(( $(date +%s) + 3600 ))") },
		mend:   func(h *hosts) error { return h.both("date -s @$(( $(date +%s) - 3600 ))") },
	},
	{
		name: "files-exhausted", what: "no file descriptor is left for a new connection",
		strike: func(h *hosts) error {
			// No number above that is given out any more; those below are taken.
			const standard = 3
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &h.files); err != nil {
				return err
			}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: standard, Max: h.files.Max}); err != nil {
				return err
			}
			if f, err := os.Open(os.DevNull); err == nil {
				_ = f.Close()
				return errors.New("a file can be opened still")
			}
			return nil
		},
		mend: func(h *hosts) error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &h.files) },
	},
	{
		name: "objects-exhausted", what: "the RDMA cgroup allows no more objects",
		strike: func(h *hosts) error {
			return shell(fmt.Sprintf(`g=/sys/fs/cgroup
				mountpoint -q $g || mount -t cgroup2 none $g
				mkdir -p $g/faults; echo +rdma >$g/cgroup.subtree_control; echo %d >$g/faults/cgroup.procs
				for r in 0 1; do echo "%s$r hca_object=4" >$g/faults/rdma.max; done`, os.Getpid(), h.kind))
		},
		mend: func(h *hosts) error {
			return shell(fmt.Sprintf(`for r in 0 1; do echo "%s$r hca_object=max" >/sys/fs/cgroup/faults/rdma.max; done
				echo %d >/sys/fs/cgroup/cgroup.procs`, h.kind, os.Getpid()))
		},
	},
	{
		name: "memlock", what: "64 KiB of locked memory for an ordinary user: a process of its own",
		strike: func(*hosts) error { return asPoorUser() },
		mend:   nothing,
	},
}, append(netem(
	"loss 1%", "loss 5%", "loss 20%", "delay 20ms", "delay 20ms reorder 25%", "duplicate 10%", "corrupt 2%",
), fault{
	name: "peer-host-killed", what: "the peer's kernel stops; the last one", final: true,
	strike: func(h *hosts) error {
		h.agent.Go("Agent.Shell", "echo b >/proc/sysrq-trigger", &struct{}{}, nil) // no answer
		return nil
	},
	mend: nothing,
})...)

func nothing(*hosts) error { return nil }

// onRail1 is a fault of rail 1, made by commands in one host.
func onRail1(host int, name, what, strike, mend string) fault {
	return fault{
		name: name, what: what, rail1: true,
		strike: func(h *hosts) error { return h.shell(host, strike) },
		mend:   func(h *hosts) error { return h.shell(host, mend) },
	}
}

// netem are faults of the wire of rail 1, in both directions.
func netem(disciplines ...string) (all []fault) {
	for _, d := range disciplines {
		all = append(all, fault{
			name: strings.NewReplacer(" ", "-", "%", "").Replace(d), what: "the wire: " + d, rail1: true,
			strike: func(h *hosts) error { return h.both("tc qdisc add dev rail1 root netem " + d) },
			mend:   func(h *hosts) error { return h.both("tc qdisc del dev rail1 root") },
		})
	}
	return all
}
