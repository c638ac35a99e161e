package acceptance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/policy"
)

// Host is a host of the table: the policy's view and a way to change it.
type Host interface {
	policy.Host
	// IP runs one ip command, given without "ip".
	IP(command string) error
	// AddRDMA puts an RDMA device on a network device.
	AddRDMA(device, netdev string)
	// Calls returns how many look-ups were made so far.
	Calls() int
}

// Run checks one scenario on a fresh host, under all policies.
func Run(t *testing.T, s Scenario, h Host) {
	for _, c := range s.Setup {
		require.NoError(t, h.IP(c), c)
	}
	for device, netdev := range s.RDMA {
		h.AddRDMA(device, netdev)
	}
	var bound policy.Binding
	if s.Bind != "" {
		var err error
		bound, err = policy.ResolveBinding(h, addr(t, s.Bind))
		if s.BindErr != nil {
			require.ErrorIs(t, err, s.BindErr)
			requireRefusal(t, err)
			return
		}
		require.NoError(t, err)
	}
	for _, c := range s.AfterBind {
		require.NoError(t, h.IP(c), c)
	}
	auto := s.Follow
	if src := addr(t, s.Src).Addr(); bound.State == policy.BoundDevice || bound.State == policy.Unbound && src.IsValid() {
		auto = s.Pin
	}
	for p, want := range map[policy.Policy]Want{
		policy.Auto: auto, policy.PinBound: s.Pin, policy.RequireRoute: s.Route, policy.FollowRoute: s.Follow,
	} {
		t.Run(p.String(), func(t *testing.T) {
			before := h.Calls()
			// (Without the kernel's version: the table is for the oldest one.)
			d := policy.Decide(struct{ policy.Host }{h}, policy.Request{
				Policy: p, Binding: bound, Src: addr(t, s.Src), Dst: addr(t, s.Dst), PortSpace: s.PortSpace,
				AllowLocalCrossing: s.Crossing, RequireOnLinkRoute: s.OnLink,
			})
			require.Equal(t, h.Calls()-before, d.Lookups, "the decision counts its look-ups")
			want.check(t, h, d)
		})
	}
}

func (w Want) check(t *testing.T, h Host, d policy.Decision) {
	t.Helper()
	require.Equal(t, cmp.Or(d.Err, w.Err) == nil, d.Verdict == policy.Accepted, "%s", d.Text())
	if w.Err != nil {
		require.ErrorIs(t, d.Err, w.Err, d.Text())
		require.ErrorIs(t, d.Err, w.Errno, d.Text())
		requireRefusal(t, d.Err)
		if w.NoLookup {
			require.Zero(t, d.Lookups)
		}
		return
	}
	require.NoError(t, d.Err)
	var netdevs []string
	for _, index := range d.Netdevs() {
		i, err := h.Interface(index)
		require.NoError(t, err)
		netdevs = append(netdevs, i.Name)
	}
	slices.Sort(netdevs)
	require.Equal(t, w.Netdevs, netdevs, d.Text())
	require.Equal(t, w.Overridden, d.Overridden, d.Text())
	require.Equal(t, w.AssumedOnLink, d.AssumedOnLink, d.Text())
	if w.AssumedOnLink {
		require.NotEmpty(t, d.Remedy)
	}
}

// requireRefusal wants what every refusal has: a sentinel by name, an errno, and
// what to do, all of them in the text.
func requireRefusal(t *testing.T, err error) {
	t.Helper()
	var e *policy.Error
	require.ErrorAs(t, err, &e)
	require.NotZero(t, e.Errno)
	require.NotEmpty(t, policy.SentinelName(err))
	require.NotEmpty(t, e.Reason)
	require.NotEmpty(t, e.Remedy)
	for _, part := range []string{e.Op, e.Reason, e.Remedy, policy.ErrnoName(e.Errno), e.Sentinel.Error()} {
		require.Contains(t, err.Error(), part)
	}
	for _, r := range e.Routes {
		require.Contains(t, err.Error(), r.String())
	}
}

// addr parses an address with or without port; "" is none.
func addr(t *testing.T, s string) netip.AddrPort {
	t.Helper()
	if s == "" {
		return netip.AddrPort{}
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a, 0)
	}
	a, err := netip.ParseAddrPort(s)
	require.NoError(t, err)
	return a
}

// String returns number and name.
func (s Scenario) String() string {
	return fmt.Sprintf("%02d %s", s.N, strings.ReplaceAll(s.Name, "/", " "))
}

// Ports makes RoCE ports for RDMA devices: one row for each address of the
// network device, as the kernel keeps the GID table.
func Ports(devices []Device, addrs func(netdev string) (index int, addrs []netip.Prefix)) []policy.RDMAPort {
	var out []policy.RDMAPort
	for n, d := range devices {
		p := policy.RDMAPort{Device: d.Name, DeviceIndex: n, GUID: uint64(n + 1), Port: 1, Transport: policy.RoCE, Active: true}
		index, list := addrs(d.Netdev)
		if index == 0 {
			continue // the network device is gone, and a soft device with it
		}
		for i, prefix := range list {
			p.GIDs = append(p.GIDs, policy.GIDRow{GID: policy.GIDOf(prefix.Addr()), Index: i, Port: 1, Type: policy.GIDTypeRoCEv2, Netdev: index})
		}
		out = append(out, p)
	}
	return out
}

// Device is an RDMA device on a network device.
type Device struct{ Name, Netdev string }

// Pair is the RDMA devices of the table's host.
func Pair() []Device { return []Device{{"rxe0", "a0"}, {"rxe1", "b0"}} }
