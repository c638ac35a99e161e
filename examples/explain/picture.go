package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/railbind/railbind/cm/policy"
)

// The picture has three columns: RDMA devices, network devices, destination.
// Between the last two run the host's route and the path of the connection.
const (
	margin    = 24
	padding   = 12  // inside a box
	lineStep  = 17  // between lines of a box
	rowGap    = 18  // between boxes
	deviceGap = 56  // from the RDMA devices to the network devices
	curve     = 90  // of the gap before the destination, where paths bend
	pathStep  = 24  // between paths from one network device
	maxAddrs  = 6   // shown of a network device that has a part in it
	fewAddrs  = 2   // of another one
	minWidth  = 900 // for the text below
)

// path is one line from a network device to the destination.
type path struct {
	rail    int // index in the shown rails
	class   string
	label   string
	blocked bool // it ends in a cross
}

// picture draws the finding that is taken.
func (r report) picture() string {
	f := r.findings[r.taken]
	rails, hidden := f.shown(r.rails)
	paths := f.paths(rails)
	class := f.class()
	c := &canvas{}

	// Sizes first.
	deviceWidth, netdevWidth, labels := 0, 0, 0
	netdevs := make([]box, len(rails))
	devices := make([][]box, len(rails))
	for i, l := range rails {
		netdevs[i] = f.netdevBox(l)
		netdevWidth = max(netdevWidth, netdevs[i].width())
		for _, p := range l.ports {
			b := f.deviceBox(l, p)
			devices[i] = append(devices[i], b)
			deviceWidth = max(deviceWidth, b.width())
		}
	}
	for _, p := range paths {
		labels = max(labels, sans.width(p.label, 12)+24)
	}
	dst := f.destinationBox(r)
	netdevX := margin + deviceWidth + deviceGap
	pathX := netdevX + netdevWidth
	dstX := pathX + max(labels, 60) + curve
	width := max(minWidth, dstX+dst.width()+margin)

	// The head.
	y := margin + 20
	c.text(margin, y, 20, "bold "+class, f.headline())
	y += 24
	for _, line := range wrap(r.words(), width-2*margin, 13) {
		c.text(margin, y, 13, "muted", line)
		y += 18
	}
	y += 14

	// The rails.
	top := y
	middles := make([]int, len(rails))
	for i := range rails {
		out := 0
		for _, p := range paths {
			if p.rail == i {
				out++
			}
		}
		height := max(netdevs[i].height(), stacked(devices[i]), out*pathStep+padding)
		netdevs[i].x, netdevs[i].y, netdevs[i].w, netdevs[i].h = netdevX, y, netdevWidth, height
		middles[i] = y + height/2
		at := y + (height-stacked(devices[i]))/2
		for _, b := range devices[i] {
			b.x, b.y, b.w, b.h = margin, at, deviceWidth, b.height()
			c.line(margin+deviceWidth, at+b.h/2, netdevX, middles[i], "link "+b.class)
			c.box(b)
			at += b.h + rowGap/2
		}
		c.box(netdevs[i])
		y += height + rowGap
	}
	bottom := max(y-rowGap, top)
	dst.w, dst.h, dst.x = dst.width(), max(dst.height(), len(paths)*pathStep+padding), dstX
	dst.y = max(top, (top+bottom-dst.h)/2)
	c.box(dst)
	if hidden > 0 {
		c.text(netdevX, y+4, 12, "muted", fmt.Sprintf("and %d more without RDMA and without a part in this", hidden))
		y += 24
	}
	y = max(y, dst.y+dst.h+rowGap)

	// The paths, each with a place of its own at both ends.
	used := make([]int, len(rails))
	for n, p := range paths {
		out := 0
		for _, q := range paths {
			if q.rail == p.rail {
				out++
			}
		}
		from := middles[p.rail] + (2*used[p.rail]-out+1)*pathStep/2
		to := dst.y + dst.h/2 + (2*n-len(paths)+1)*pathStep/2
		used[p.rail]++
		c.path(pathX, from, dstX-curve, dstX, to, p.class, p.blocked)
		c.text(pathX+12, from-5, 12, p.class, p.label)
	}

	// What it rests on, and what to do.
	y += 10
	for _, l := range f.notes() {
		size, class := 13, "ink"
		if l.key == "command" {
			size, class = 13, "mono"
		}
		indent := margin + 76
		for i, line := range wrap(l.value, width-indent-margin, size) {
			if i == 0 && l.key != "command" {
				c.text(margin, y, 13, "muted", l.key)
			}
			c.text(indent, y, size, class, line)
			y += 19
		}
	}
	return c.svg(width, y+margin-10, f.headline(), strings.Join(r.lines(), "\n"))
}

func stacked(boxes []box) int {
	h := 0
	for _, b := range boxes {
		h += b.height() + rowGap/2
	}
	return max(0, h-rowGap/2)
}

// shown leaves out network devices that carry no RDMA and have no part in it.
func (f finding) shown(all []rail) (rails []rail, hidden int) {
	for _, l := range all {
		if len(l.ports) > 0 || f.uses(l) {
			rails = append(rails, l)
		} else if !l.Loopback {
			hidden++
		}
	}
	return rails, hidden
}

// uses says whether a network device has a part in it: it is bound, has an
// address that was asked for, or a route leads there.
func (f finding) uses(l rail) bool {
	d := f.decision
	if l.Index == d.Binding.Ifindex || l.leads(d.Effective, d.FIB) || l.leads(d.HostRoute, d.HostFIB) {
		return true
	}
	if u := f.unbound; u != nil && l.leads(u.HostRoute, u.HostFIB) {
		return true
	}
	return slices.ContainsFunc([]netip.Addr{d.Request.Src.Addr(), d.Request.Dst.Addr()}, func(a netip.Addr) bool {
		return a.IsValid() && a.Zone() == "" && l.has(a)
	})
}

// paths lists the host's own routes, and the path of the connection or what is
// in its way.
func (f finding) paths(rails []rail) (out []path) {
	d := f.decision
	add := func(class, label string, blocked bool, route, table policy.Route) {
		for i, l := range rails {
			if !l.leads(route, table) {
				continue
			}
			text := label
			if gateway := l.gateway(route, table); gateway.IsValid() && !blocked {
				text += " via " + gateway.String()
			}
			out = append(out, path{i, class, text, blocked})
		}
	}
	at := func(ifindex int, class, label string, blocked bool) {
		for i, l := range rails {
			if l.Index == ifindex {
				out = append(out, path{i, class, label, blocked})
			}
		}
	}
	switch u := f.unbound; {
	case u == nil:
		add("host", "host's route", false, d.HostRoute, d.HostFIB)
	case d.HostRoute.Kind == policy.RouteNotAsked || sameRoute(u.HostRoute, d.HostRoute):
		add("host", "host's route", false, u.HostRoute, u.HostFIB)
	default:
		add("host", "host's route, unbound", false, u.HostRoute, u.HostFIB)
		add("host", "host's route from that address", false, d.HostRoute, d.HostFIB)
	}
	bound := d.Binding.State == policy.BoundDevice
	switch {
	case f.unknown != nil:
	case d.Verdict == policy.Accepted:
		for _, t := range d.Predicted {
			at(t.Ifindex, f.class(), "the connection, on "+t.Device, false)
		}
	case bound:
		at(d.Binding.Ifindex, "bad", "refused", true)
		if d.Effective.Kind == policy.RouteUnicast && d.Effective.Ifindex != d.Binding.Ifindex {
			add("bad dashed", "what the kernel would do", false, d.Effective, d.FIB)
		}
	default:
		add("bad", "refused", true, d.HostRoute, d.HostFIB)
	}
	return out
}

func sameRoute(a, b policy.Route) bool {
	return a.Kind == b.Kind && a.Ifindex == b.Ifindex && a.Gateway == b.Gateway
}

// class is the colour of the verdict.
func (f finding) class() string {
	switch d := f.decision; {
	case f.unknown != nil:
		return "muted"
	case d.Verdict != policy.Accepted:
		return "bad"
	case d.AssumedOnLink || f.kernel != nil && f.kernel.differs != "":
		return "warn"
	}
	return "good"
}

// headline is the verdict on one line.
func (f finding) headline() string { return f.row("verdict") }

func (f finding) row(key string) string {
	for _, l := range f.rows("") {
		if label(l.key) == key {
			return l.value
		}
	}
	return ""
}

// notes are the lines below the picture.
func (f finding) notes() (out []row) {
	if reason := f.row("because"); reason != "" {
		out = append(out, row{"because", reason})
	}
	key := "to do"
	for _, l := range f.rows("") {
		if label(l.key) != "to do" {
			continue
		}
		if slices.Contains(f.decision.Commands, l.value) {
			if key != "" {
				out = append(out, row{key, "as root:"})
			}
			out = append(out, row{"command", l.value})
		} else {
			out = append(out, row{key, l.value})
		}
		key = ""
	}
	if kernel := f.row("kernel"); kernel != "" {
		out = append(out, row{"kernel", kernel})
	}
	return out
}

// lines is the text of the report, for readers that cannot see.
func (r report) lines() []string { return strings.Split(strings.TrimSuffix(r.text(), "\n"), "\n") }

func (f finding) netdevBox(l rail) box {
	d := f.decision
	about := fmt.Sprintf("MTU %d", l.MTU)
	if l.Kind != "" {
		about = l.Kind + ", " + about
	}
	b := box{class: f.railClass(l), lines: []span{{"bold", l.Name}, {"muted", about}}}
	if !l.Up {
		b.lines = append(b.lines, span{"bad", "down"})
	}
	if len(l.ports) == 0 {
		b.lines = append(b.lines, span{"muted", "no RDMA"})
	}
	// The address that matters comes first.
	addrs := slices.Clone(l.addrs)
	special := []netip.Addr{d.Binding.Addr.Addr(), d.Request.Src.Addr(), d.Request.Dst.Addr()}
	slices.SortStableFunc(addrs, func(a, b netip.Prefix) int { return rank(special, a.Addr()) - rank(special, b.Addr()) })
	most := fewAddrs
	if f.uses(l) {
		most = maxAddrs
	}
	for i, a := range addrs {
		if i == most && len(addrs) > most+1 {
			b.lines = append(b.lines, span{"muted", fmt.Sprintf("and %d more", len(addrs)-i)})
			break
		}
		s := span{"mono", a.String()}
		if bound := d.Binding; bound.State == policy.BoundDevice && bound.Ifindex == l.Index && bound.Addr.Addr().WithZone("") == a.Addr() {
			s = span{"mono bold " + b.class, a.String() + "  bound"}
		}
		b.lines = append(b.lines, s)
	}
	return b
}

// rank is how far ahead an address belongs.
func rank(special []netip.Addr, a netip.Addr) int {
	if i := slices.IndexFunc(special, func(s netip.Addr) bool { return s.IsValid() && s.WithZone("") == a }); i >= 0 {
		return i
	}
	return len(special)
}

func (f finding) deviceBox(l rail, p policy.RDMAPort) box {
	state := "active"
	if !p.Active {
		state = "not active"
	}
	b := box{lines: []span{{"bold", fmt.Sprintf("%s/%d", p.Device, p.Port)}, {"muted", fmt.Sprintf("%v, %s", p.Transport, state)}}}
	d := f.decision
	bound := d.Binding.State == policy.BoundDevice && d.Binding.Device == p.Device && d.Binding.Port == p.Port && d.Binding.Ifindex == l.Index
	chosen := slices.ContainsFunc(d.Predicted, func(t policy.Target) bool {
		return t.Device == p.Device && t.Port == p.Port && t.Ifindex == l.Index
	})
	if bound || chosen {
		b.class = f.class()
	}
	return b
}

// railClass marks the bound and the chosen network device.
func (f finding) railClass(l rail) string {
	d := f.decision
	if d.Binding.State == policy.BoundDevice && d.Binding.Ifindex == l.Index ||
		slices.ContainsFunc(d.Predicted, func(t policy.Target) bool { return t.Ifindex == l.Index }) {
		return f.class()
	}
	return ""
}

func (f finding) destinationBox(r report) box {
	d := f.decision
	b := box{lines: []span{{"muted", "destination"}}}
	if r.name != "" {
		b.lines = append(b.lines, span{"bold", r.name})
	}
	if d.Request.Dst.Addr().IsValid() {
		b.lines = append(b.lines, span{"mono bold", text(d.Request.Dst)})
	}
	route := d.HostRoute
	if f.unbound != nil {
		route = f.unbound.HostRoute
	}
	switch route.Kind {
	case policy.RouteLocal:
		b.lines = append(b.lines, span{"muted", "an address of this host"})
	case policy.RouteNone, policy.RouteUnreachable, policy.RouteBlackhole, policy.RouteProhibit:
		b.lines = append(b.lines, span{"host", "host's route: " + route.Kind.String()})
	}
	return b
}
