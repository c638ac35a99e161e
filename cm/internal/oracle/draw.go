//go:build linux

package oracle

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/railbind/railbind/cm/policy"
)

// Case is one call on one host.
type Case struct {
	Steps []Step
	Call  Call
}

// Draw draws the host of that number and calls on it. The same seed and number
// give the same host.
func Draw(seed uint64, number, calls int) ([]Step, []Call) {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, uint64(number)))}
	steps := d.host()
	var out []Call
	for range calls {
		out = append(out, d.call())
	}
	return steps, out
}

// dice draws one host, remembering what calls can aim at.
type dice struct {
	*rand.Rand
	addrs   []Address
	dsts    []netip.Addr
	vrf     string // the member of the VRF
	objects []Nexthop
}

func (d *dice) chance(percent int) bool { return d.IntN(100) < percent }

func one[T any](d *dice, list ...T) T { return list[d.IntN(len(list))] }

func (d *dice) dev() string { return Netdevs[d.IntN(len(Netdevs))].Name }

const (
	vrfName    = "vrf-x"
	vrfTable   = 10
	otherTable = 100
)

func (d *dice) host() (out []Step) {
	if d.chance(20) {
		d.vrf = d.dev()
		out = append(out, VRF{vrfName, vrfTable, d.vrf})
	}
	out = append(out, d.addresses()...)
	dark := d.chance(12) // a link without carrier
	if dark && d.chance(40) {
		out = append(out, SkipLinkdown{d.dev()}, SkipLinkdown{d.dev()})
	}
	if dark && d.chance(30) { // before its routes
		out, dark = append(out, NoCarrier{d.dev()}), false
	}
	if d.vrf != "" {
		for _, v6 := range []bool{false, true} {
			if d.chance(50) {
				out = append(out, Route{To: anywhere(v6), Type: "unreachable", Metric: 4278198272, Table: vrfTable})
			}
		}
	}
	if d.chance(35) {
		out = append(out, d.nexthops()...)
	}
	for range d.IntN(6) {
		out = append(out, d.route(d.chance(50)))
	}
	for range max(0, d.IntN(5)-2) {
		out = append(out, d.rule(d.chance(50)))
	}
	if dark {
		out = append(out, NoCarrier{d.dev()})
	}
	if d.chance(12) {
		out = append(out, Down{d.dev()})
	}
	return out
}

func (d *dice) addresses() (out []Step) {
	add := func(dev, prefix string) {
		a := Address{dev, netip.MustParsePrefix(prefix)}
		for _, s := range out {
			if s == Step(a) {
				return
			}
		}
		out, d.addrs = append(out, a), append(d.addrs, a)
	}
	for i, n := range Netdevs {
		if d.chance(95) {
			add(n.Name, fmt.Sprintf("10.%d.0.1/24", i+1))
		}
		if d.chance(95) {
			add(n.Name, fmt.Sprintf("fd0%d::1/64", i+1))
		}
		if d.chance(60) {
			add(n.Name, fmt.Sprintf("fe80::%d/64", i+1))
		}
		d.dsts = append(d.dsts,
			netip.AddrFrom4([4]byte{10, byte(i + 1), 0, 2}), netip.AddrFrom4([4]byte{10, byte(i + 1), 0, 200}),
			netip.MustParseAddr(fmt.Sprintf("fd0%d::2", i+1)), netip.MustParseAddr(fmt.Sprintf("fd0%d::1:2", i+1)))
	}
	if d.chance(25) { // a second address in the same subnet, or on another network device
		add(d.dev(), one(d, "10.1.0.9/24", "10.2.0.9/24", "10.1.0.9/16", "10.1.0.9/32"))
		add(d.dev(), one(d, "fd01::9/64", "fd02::9/64", "fd01::9/48", "fd01::9/128"))
	}
	if d.chance(15) { // an address twice
		p := one(d, "10.1.0.1/24", "10.2.0.1/24", "fd01::1/64", "fd02::1/64")
		add(d.dev(), p)
		a := netip.MustParsePrefix(p).Addr()
		d.dsts = append(d.dsts, a, a)
	}
	if d.chance(15) {
		add(d.dev(), "fe80::1/64")
	}
	if d.vrf != "" && d.chance(40) { // of the VRF's own device
		add(vrfName, one(d, "10.5.0.1/24", "fd05::1/64", "10.5.0.1/32", "fd05::1/128"))
		d.dsts = append(d.dsts, netip.MustParseAddr("10.5.0.2"), netip.MustParseAddr("fd05::2"))
	}
	if d.chance(15) {
		add("lo", one(d, "10.4.0.1/32", "fd04::1/128"))
	}
	return out
}

func anywhere(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// own draws an address of the host, of one family, and where the choice is one
// to bind, mostly of a network device with RDMA.
func (d *dice) own(v6, bind bool) netip.Addr {
	bind = bind && d.chance(90)
	list := slices.DeleteFunc(slices.Clone(d.addrs), func(a Address) bool {
		return a.Prefix.Addr().Is6() != v6 || a.Prefix.Addr().IsLinkLocalUnicast() || bind && a.Dev != vrfName && deviceOf(a.Dev) == ""
	})
	if len(list) == 0 {
		return netip.Addr{}
	}
	return one(d, list...).Prefix.Addr()
}

func (d *dice) prefix(v6 bool) netip.Prefix {
	texts := []string{"10.1.0.2/32", "10.1.0.200/32", "10.2.0.2/32", "10.3.0.2/32", "10.1.0.0/25", "10.2.0.0/25", "10.2.0.0/16",
		"10.50.0.0/24", "10.60.0.0/24", "10.0.0.0/8", "0.0.0.0/0"}
	if v6 {
		texts = []string{"fd01::2/128", "fd01::1:2/128", "fd02::2/128", "fd03::2/128", "fd01::/96", "fd02::/96", "fd02::/48",
			"fd50::/64", "fd60::/64", "fd00::/8", "::/0"}
	}
	p := netip.MustParsePrefix(one(d, texts...))
	aim := p.Addr()
	if !p.IsSingleIP() {
		aim = aim.Next()
	}
	if p.Bits() >= 24 { // calls shall meet it
		d.dsts = append(d.dsts, aim, aim, aim)
	}
	return p
}

// hop draws a way out: by a gateway on the network device's link, or straight.
func (d *dice) hop(v6 bool) Hop {
	i := d.IntN(len(Netdevs))
	h := Hop{Dev: Netdevs[i].Name}
	switch {
	case d.chance(50):
	case v6 && d.chance(30):
		h.Via = netip.MustParseAddr("fe80::99")
	case v6:
		h.Via = netip.MustParseAddr(fmt.Sprintf("fd0%d::fe", i+1))
	default:
		h.Via = netip.AddrFrom4([4]byte{10, byte(i + 1), 0, 254})
	}
	return h
}

func (d *dice) route(v6 bool) Step {
	r := Route{To: d.prefix(v6)}
	object := d.object(v6)
	switch n := d.IntN(100); {
	case object != 0 && n < 60:
		r.Nexthop = object
		if !v6 && d.chance(15) {
			r.Src = d.own(v6, false)
		}
	case n < 16:
		r.Type = one(d, "unreachable", "blackhole", "prohibit", "throw")
	case n < 19:
		r.Type, r.Dev = "local", d.dev()
	case n < 40:
		for range 2 + d.IntN(2) {
			h := d.hop(v6)
			h.Weight = 1 + d.IntN(3)
			r.Hops = append(r.Hops, h)
		}
	default:
		h := d.hop(v6)
		r.Dev, r.Via = h.Dev, h.Via
		if r.Via.IsValid() && d.chance(15) {
			r.Onlink = true
			if !v6 {
				r.Via = netip.MustParseAddr("10.98.0.254")
			}
		}
		if d.chance(15) {
			r.Src = d.own(v6, false)
		}
	}
	if d.chance(25) {
		r.Metric = one(d, 50, 500, 5000)
	}
	switch {
	case d.chance(25):
		r.Table = otherTable
	case d.vrf != "" && d.chance(40):
		r.Table = vrfTable
	}
	return r
}

func (d *dice) rule(v6 bool) Step {
	r := Rule{V6: v6, Table: otherTable, Pref: 100 + d.IntN(100)}
	if d.chance(15) {
		return Rule{V6: v6, Table: unix.RT_TABLE_MAIN, Pref: 50, NoDefault: true}
	}
	if own := d.own(v6, true); own.IsValid() && d.chance(70) {
		r.From = netip.PrefixFrom(own, own.BitLen())
	}
	if d.chance(30) {
		r.To = d.prefix(v6)
	}
	if d.chance(15) {
		r.Oif = d.dev()
	}
	if d.chance(15) {
		r.Refuse, r.Table = one(d, "unreachable", "blackhole", "prohibit"), 0
	}
	if !r.From.IsValid() && !r.To.IsValid() && r.Refuse != "" && r.Oif == "" {
		r.To = d.prefix(v6) // it would refuse everything
	}
	return r
}

func (d *dice) call() Call {
	c := Call{PortSpace: one(d, policy.PortSpaceTCP, policy.PortSpaceTCP, policy.PortSpaceUDP), Policy: one(d, policy.Auto, policy.PinBound, policy.PinBound, policy.RequireRoute, policy.FollowRoute)}
	v6 := d.chance(50)
	switch n := d.IntN(100); {
	case n < 25:
		if c.Policy != policy.Auto && d.chance(60) {
			c.Policy = policy.FollowRoute
		}
	case n < 29:
		c.Bind = netip.AddrPortFrom(anywhere(v6).Addr(), d.port())
	case n < 30:
		c.Bind = netip.AddrPortFrom(loopback(v6), d.port())
	case n < 31:
		c.Bind = netip.AddrPortFrom(foreign(v6), d.port())
	case n < 41 && v6:
		c.Bind = netip.AddrPortFrom(d.linkLocal(), d.port())
	default:
		c.Bind = netip.AddrPortFrom(d.ownOrForeign(v6, true), d.port())
		if c.Policy == policy.FollowRoute && d.chance(80) {
			c.Policy = policy.PinBound
		}
	}
	if d.chance(14) {
		c.Src = d.source(c.Bind, v6)
	}
	if d.chance(97) {
		v6 = v6 == d.chance(98)
	}
	c.Dst = netip.AddrPortFrom(d.dst(v6, c.Bind.Addr()), 7471)
	c.LocalCrossing, c.RequireOnLink = d.chance(15), d.chance(15)
	if d.chance(2) && c.Dst.Addr().Is4() {
		c.Dst = netip.AddrPortFrom(netip.AddrFrom16(c.Dst.Addr().As16()), 7471)
	}
	return c
}

// port draws none mostly; else one that nothing else has.
func (d *dice) port() uint16 {
	if d.chance(70) {
		return 0
	}
	return uint16(20000 + d.IntN(10000))
}

func loopback(v6 bool) netip.Addr {
	if v6 {
		return netip.IPv6Loopback()
	}
	return netip.MustParseAddr("127.0.0.1")
}

func foreign(v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr("fd99::1")
	}
	return netip.MustParseAddr("10.99.0.1")
}

func (d *dice) ownOrForeign(v6, bind bool) netip.Addr {
	if own := d.own(v6, bind); own.IsValid() {
		return own
	}
	return foreign(v6)
}

// linkLocal draws one with the right zone mostly.
func (d *dice) linkLocal() netip.Addr {
	i := one(d, 0, 0, 0, 1, 1, 1, 2)
	a := netip.MustParseAddr(fmt.Sprintf("fe80::%d", i+1))
	switch {
	case d.chance(85):
		return a.WithZone(Netdevs[i].Name)
	case d.chance(60):
		return a.WithZone(d.dev())
	}
	return a
}

func (d *dice) source(bind netip.AddrPort, v6 bool) netip.AddrPort {
	switch {
	case specific(bind) && d.chance(50):
		return netip.AddrPortFrom(bind.Addr(), one(d, 0, bind.Port()))
	case d.chance(10):
		return netip.AddrPortFrom(anywhere(v6).Addr(), 0)
	case v6 && d.chance(15):
		return netip.AddrPortFrom(d.linkLocal(), 0)
	}
	return netip.AddrPortFrom(d.ownOrForeign(v6, true), 0)
}

func (d *dice) dst(v6 bool, bind netip.Addr) netip.Addr {
	switch n := d.IntN(100); {
	case n < 2:
		return one(d, anywhere(v6).Addr(), loopback(v6))
	case n < 5 && v6:
		return netip.MustParseAddr("ff0e::1")
	case n < 5:
		return one(d, netip.MustParseAddr("239.1.1.1"), netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("10.1.0.255"))
	case v6 && (bind.IsLinkLocalUnicast() && n < 75 || n < 10):
		a := netip.MustParseAddr("fe80::77")
		if d.chance(30) {
			a = d.linkLocal().WithZone("")
		}
		if d.chance(95) {
			a = a.WithZone(d.dev())
		}
		if zone := bind.Zone(); zone != "" && d.chance(60) {
			a = a.WithZone(zone)
		}
		return a
	case n < 25:
		return d.ownOrForeign(v6, false)
	case n < 32:
		return foreign(v6)
	}
	list := slices.DeleteFunc(slices.Clone(d.dsts), func(a netip.Addr) bool { return a.Is6() != v6 })
	return one(d, list...)
}
