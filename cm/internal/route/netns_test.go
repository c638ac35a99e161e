//go:build linux

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/internal/acceptance"
	"github.com/railbind/railbind/cm/policy"
)

// space is a network namespace of its own, made by a thread that ends with the
// test: the thread is locked and never unlocked, so Go destroys it.
type space struct {
	*Handle
	work    chan func()
	devices []acceptance.Device
	calls   atomic.Int64
}

// newSpace makes an empty namespace with lo up. A machine where that is not
// allowed cannot run these tests; in the guest it must be.
func newSpace(t testing.TB) *space {
	t.Helper()
	s := &space{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		ready <- err
		if err != nil {
			return
		}
		for f := range s.work {
			f()
		}
	}()
	err := <-ready
	if errors.Is(err, unix.EPERM) && os.Getenv("RAILBIND_GUEST") == "" {
		t.Skip("making a network namespace needs root")
	}
	require.NoError(t, err)
	t.Cleanup(func() { close(s.work) })
	s.do(func() { s.Handle, err = Open() })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.ip(t, "link set lo up")
	return s
}

// do runs f on the namespace's thread.
func (s *space) do(f func()) {
	done := make(chan struct{})
	s.work <- func() { defer close(done); f() }
	<-done
}

// IP runs one ip command in the namespace.
func (s *space) IP(command string) error { return s.batch(command) }

// ip runs commands, in order, in as few processes as possible.
func (s *space) ip(t testing.TB, commands ...string) {
	t.Helper()
	require.NoError(t, s.batch(commands...))
}

func (s *space) batch(commands ...string) error {
	var lines strings.Builder
	flush := func() error {
		if lines.Len() == 0 {
			return nil
		}
		defer lines.Reset()
		return s.run(lines.String(), "-batch", "-")
	}
	var added []string // of IPv6, as the kernel's routes name them
	settle := func() error {
		if err := flush(); err != nil {
			return err
		}
		defer func() { added = nil }()
		return s.awaitLocal(added)
	}
	for _, c := range commands {
		if len(added) > 0 && !strings.HasPrefix(c, "addr add") { // which may take them away
			if err := settle(); err != nil {
				return err
			}
		}
		// Duplicate address detection would keep an address tentative for a second.
		if strings.HasPrefix(c, "addr") && !strings.Contains(c, "del") && strings.Contains(c, "::") {
			f := strings.Fields(c)
			added = append(added, fmt.Sprintf("local %s dev %s ", strings.Split(f[2], "/")[0], f[4]))
			c += " nodad"
		}
		// Not every command takes the family from its addresses.
		if strings.HasPrefix(c, "rule") && strings.Contains(c, "::") || strings.Contains(c, "default") {
			if err := flush(); err != nil {
				return err
			}
			if err := s.run("", append([]string{"-6"}, strings.Fields(c)...)...); err != nil {
				return err
			}
			continue
		}
		lines.WriteString(c + "\n")
	}
	return settle()
}

// awaitLocal waits for the routes that make addresses of IPv6 local: the kernel adds
// them from a work queue, some time after the address.
func (s *space) awaitLocal(routes []string) error {
	end := time.Now().Add(10 * time.Second)
	for len(routes) > 0 {
		have, err := s.output("", "-6", "route", "show", "table", "all", "type", "local")
		if err != nil {
			return err
		}
		routes = slices.DeleteFunc(routes, func(r string) bool { return strings.Contains(have, r) })
		if time.Now().After(end) {
			return fmt.Errorf("no route %q", routes)
		}
	}
	return nil
}

func (s *space) run(stdin string, args ...string) error {
	_, err := s.output(stdin, args...)
	return err
}

func (s *space) output(stdin string, args ...string) (string, error) {
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out []byte
	var err error
	s.do(func() { out, err = cmd.CombinedOutput() })
	if err != nil {
		return "", fmt.Errorf("ip %s: %w: %s\n%s", strings.Join(args, " "), err, out, stdin)
	}
	return string(out), nil
}

// sysctl writes a file below /proc/sys/net of the namespace.
func (s *space) sysctl(t testing.TB, name, value string) {
	t.Helper()
	var err error
	s.do(func() { err = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644) })
	require.NoError(t, err)
}

// newPair makes the rails of the acceptance scenarios; the RDMA devices are the
// table's, for this machine may have none.
func newPair(t testing.TB) *space {
	t.Helper()
	s := newSpace(t)
	s.devices = acceptance.Pair()
	var commands []string
	for i, rail := range []string{"a", "b", "c"} {
		commands = append(commands,
			fmt.Sprintf("link add %s0 mtu %d type veth peer name %s1 mtu 4200", rail, []int{4200, 2200, 1500}[i], rail),
			fmt.Sprintf("link set %s1 up", rail),
			fmt.Sprintf("link set %s0 up", rail),
			fmt.Sprintf("addr add 10.%d.0.1/24 dev %s0", i+1, rail),
			fmt.Sprintf("addr add fd0%d::1/64 dev %s0", i+1, rail))
	}
	s.ip(t, commands...)
	return s
}

func (s *space) AddRDMA(device, netdev string) {
	s.devices = append(s.devices, acceptance.Device{Name: device, Netdev: netdev})
}

func (s *space) Calls() int { return int(s.calls.Load()) }

// RDMAPorts makes the GID tables that soft RDMA devices would have there.
func (s *space) RDMAPorts() ([]policy.RDMAPort, error) {
	s.calls.Add(1)
	return acceptance.Ports(s.devices, func(netdev string) (int, []netip.Prefix) {
		i, err := s.Handle.InterfaceByName(netdev)
		if err != nil {
			return 0, nil
		}
		addrs, err := s.Handle.Addrs(i.Index)
		if err != nil {
			return 0, nil
		}
		return i.Index, addrs
	}), nil
}

// The look-ups are counted as the policy makes them.

func (s *space) Route(q policy.Query) (policy.Route, error) {
	s.calls.Add(1)
	return s.Handle.Route(q)
}

func (s *space) Owners(a netip.Addr) ([]policy.Interface, error) {
	s.calls.Add(1)
	return s.Handle.Owners(a)
}

func (s *space) Interface(index int) (policy.Interface, error) {
	s.calls.Add(1)
	return s.Handle.Interface(index)
}

func (s *space) InterfaceByName(name string) (policy.Interface, error) {
	s.calls.Add(1)
	return s.Handle.InterfaceByName(name)
}

func (s *space) Interfaces() ([]policy.Interface, error) {
	s.calls.Add(1)
	return s.Handle.Interfaces()
}

func (s *space) Addrs(index int) ([]netip.Prefix, error) {
	s.calls.Add(1)
	return s.Handle.Addrs(index)
}

// has says whether this kernel makes links of a kind.
func (s *space) has(kind string) bool {
	args := map[string]string{"vrf": " table 4242"}[kind]
	if s.IP("link add probe type "+kind+args) != nil {
		return false
	}
	return s.IP("link del probe") == nil
}
