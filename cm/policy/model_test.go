package policy_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/cm/internal/acceptance"
	"github.com/railbind/railbind/cm/policy"
)

// model is a host in memory: links, addresses, routing tables, rules by source,
// VRFs and RDMA devices, with the kernel's look-up as package policy knows it.
// It is changed by ip commands, the same ones that change a real host.
type model struct {
	links   map[int]*link
	last    int // index of the newest link
	routes  []entry
	rules   []rule
	devices []acceptance.Device
	ports   []policy.RDMAPort // instead of devices, where not nil
	hash    int               // which next hop the kernel's hash chooses
	hashes  bool              // IPv6: also where a next hop is on the device asked for
	calls   int
	fail    map[string]error // look-up by name: what it fails with
	queries []policy.Query

	exclusive bool // RDMA devices are seen in their own namespace only
	shut      []policy.InaccessiblePort
}

func (m *model) InaccessiblePorts() []policy.InaccessiblePort { return m.shut }

func (m *model) ExclusiveRDMA() bool { return m.exclusive }

type link struct {
	policy.Interface
	addrs []netip.Prefix
}

// entry is a route; local ones are in table 255.
type entry struct {
	table int
	dst   netip.Prefix
	kind  policy.RouteKind
	hops  []policy.Hop
}

type rule struct {
	from  netip.Addr
	table int
}

const (
	tableMain  = 254
	tableLocal = 255
)

// newPair is the host of the acceptance scenarios.
func newPair(t testing.TB) *model {
	m := &model{links: map[int]*link{}, devices: acceptance.Pair()}
	m.add(policy.Interface{Name: "lo", MTU: 65536, Up: true, Loopback: true})
	for i, rail := range []string{"a", "b", "c"} {
		m.add(policy.Interface{Name: rail + "0", MTU: []int{4200, 2200, 1500}[i], Up: true, Kind: "veth"})
		require.NoError(t, m.IP(fmt.Sprintf("addr add 10.%d.0.1/24 dev %s0", i+1, rail)))
		require.NoError(t, m.IP(fmt.Sprintf("addr add fd0%d::1/64 dev %s0", i+1, rail)))
	}
	return m
}

func (m *model) add(i policy.Interface) int {
	m.last++
	i.Index = m.last
	m.links[i.Index] = &link{Interface: i}
	return i.Index
}

func (m *model) named(name string) *link {
	for _, l := range m.links {
		if l.Name == name {
			return l
		}
	}
	return nil
}

func (m *model) AddRDMA(device, netdev string) {
	m.devices = append(m.devices, acceptance.Device{Name: device, Netdev: netdev})
}

func (m *model) Calls() int { return m.calls }

func (m *model) ask(what string) error {
	m.calls++
	return m.fail[what]
}

func (m *model) Interface(index int) (policy.Interface, error) {
	if err := m.ask("interface"); err != nil {
		return policy.Interface{}, err
	}
	if l, ok := m.links[index]; ok {
		return l.Interface, nil
	}
	return policy.Interface{}, fmt.Errorf("link %d: %w", index, syscall.ENODEV)
}

func (m *model) InterfaceByName(name string) (policy.Interface, error) {
	if err := m.ask("name"); err != nil {
		return policy.Interface{}, err
	}
	if l := m.named(name); l != nil {
		return l.Interface, nil
	}
	return policy.Interface{}, fmt.Errorf("link %q: %w", name, syscall.ENODEV)
}

func (m *model) Interfaces() ([]policy.Interface, error) {
	var out []policy.Interface
	for _, l := range m.sorted() {
		out = append(out, l.Interface)
	}
	return out, m.ask("interfaces")
}

func (m *model) sorted() []*link {
	var out []*link
	for index := 1; index <= m.last; index++ {
		if l, ok := m.links[index]; ok {
			out = append(out, l)
		}
	}
	return out
}

func (m *model) Addrs(index int) ([]netip.Prefix, error) {
	if err := m.ask("addrs"); err != nil {
		return nil, err
	}
	if l, ok := m.links[index]; ok {
		return l.addrs, nil
	}
	return nil, nil
}

func (m *model) Owners(addr netip.Addr) ([]policy.Interface, error) {
	if err := m.ask("owners"); err != nil {
		return nil, err
	}
	var out []policy.Interface
	for _, l := range m.owners(addr.WithZone("")) {
		out = append(out, l.Interface)
	}
	return out, nil
}

func (m *model) owners(addr netip.Addr) (out []*link) {
	for _, l := range m.sorted() {
		if slices.ContainsFunc(l.addrs, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			out = append(out, l)
		}
	}
	return out
}

func (m *model) RDMAPorts() ([]policy.RDMAPort, error) {
	if err := m.ask("ports"); err != nil {
		return nil, err
	}
	if m.ports != nil {
		return m.ports, nil
	}
	return acceptance.Ports(m.devices, func(netdev string) (int, []netip.Prefix) {
		if l := m.named(netdev); l != nil {
			return l.Index, l.addrs
		}
		return 0, nil
	}), nil
}

func (m *model) Route(q policy.Query) (policy.Route, error) {
	if err := m.ask("route"); err != nil {
		return policy.Route{}, err
	}
	m.queries = append(m.queries, q)
	r := m.lookup(q)
	if l, ok := m.links[r.Ifindex]; ok {
		r.Netdev = l.Name
	}
	for i, h := range r.Hops {
		r.Hops[i].Netdev = m.links[h.Ifindex].Name
	}
	return r, nil
}

func negative(kind policy.RouteKind, errno syscall.Errno) policy.Route {
	return policy.Route{Kind: kind, Errno: errno}
}

var errnos = map[policy.RouteKind]syscall.Errno{
	policy.RouteUnreachable: syscall.EHOSTUNREACH, policy.RouteBlackhole: syscall.EINVAL, policy.RouteProhibit: syscall.EACCES,
}

// lookup is the kernel's output look-up.
func (m *model) lookup(q policy.Query) policy.Route {
	oif, v4 := m.links[q.Oif], q.Dst.Is4()
	if v4 && q.Src.IsValid() && len(m.owners(q.Src)) == 0 {
		return negative(policy.RouteBlackhole, syscall.EINVAL)
	}
	if v4 && oif != nil && !oif.Up {
		return negative(policy.RouteNone, syscall.ENETUNREACH)
	}
	if q.Dst.IsMulticast() {
		r := policy.Route{Kind: policy.RouteMulticast, Ifindex: q.Oif}
		if owners := m.owners(q.Src); q.Oif == 0 && len(owners) > 0 {
			r.Ifindex = owners[0].Index
		}
		return r
	}
	if !v4 && q.Dst.IsLinkLocalUnicast() { // strict: the link must be given
		if oif == nil || !oif.Up {
			return negative(policy.RouteNone, syscall.ENETUNREACH)
		}
		return policy.Route{Kind: policy.RouteUnicast, Ifindex: q.Oif, PrefSrc: m.source(oif, q.Dst)}
	}
	for _, table := range m.tables(q, oif) {
		if e := m.longest(table, q); e != nil {
			return m.answer(q, *e)
		}
	}
	return m.guess(q, oif, negative(policy.RouteNone, syscall.ENETUNREACH))
}

// tables returns the tables in the order of the rules.
func (m *model) tables(q policy.Query, oif *link) []int {
	out := []int{tableLocal}
	if oif != nil && oif.Master != 0 && m.links[oif.Master].Kind == "vrf" {
		out = append(out, m.links[oif.Master].Table)
	}
	for _, r := range m.rules {
		if r.from == q.Src {
			out = append(out, r.table)
		}
	}
	return append(out, tableMain)
}

// longest returns the best entry of a table. For IPv4 an output device filters,
// for IPv6 it is a preference among equal prefixes.
func (m *model) longest(table int, q policy.Query) (best *entry) {
	preferred := func(e *entry) bool {
		return slices.ContainsFunc(e.hops, func(h policy.Hop) bool { return h.Ifindex == q.Oif })
	}
	for i := range m.routes {
		e := &m.routes[i]
		alive := len(e.hops) == 0 || slices.ContainsFunc(e.hops, func(h policy.Hop) bool { return m.links[h.Ifindex] != nil && m.links[h.Ifindex].Up })
		if e.table != table || !alive || !e.dst.Contains(q.Dst) {
			continue
		}
		if q.Dst.Is4() && q.Oif != 0 && len(e.hops) > 0 && !preferred(e) {
			continue
		}
		if best == nil || e.dst.Bits() > best.dst.Bits() || e.dst.Bits() == best.dst.Bits() && preferred(e) && !preferred(best) {
			best = e
		}
	}
	return best
}

func (m *model) answer(q policy.Query, e entry) policy.Route {
	if errno, ok := errnos[e.kind]; ok {
		return m.guess(q, m.links[q.Oif], negative(e.kind, errno))
	}
	hop := e.hops[m.hash%len(e.hops)]
	if n := slices.IndexFunc(e.hops, func(h policy.Hop) bool { return h.Ifindex == q.Oif }); n >= 0 && (q.Dst.Is4() || !m.hashes) {
		hop = e.hops[n]
	}
	r := policy.Route{Kind: e.kind, Ifindex: hop.Ifindex, Gateway: hop.Gateway, Table: e.table}
	if e.kind == policy.RouteLocal {
		if r.PrefSrc = q.Dst; !q.FIBMatch {
			r.Ifindex = 1 // dev lo, whoever owns the address
			if l := m.links[m.links[hop.Ifindex].Master]; l != nil && l.Kind == "vrf" {
				r.Ifindex = l.Index
			}
		}
		return r
	}
	if !q.Src.IsValid() {
		r.PrefSrc = m.source(m.links[hop.Ifindex], q.Dst)
	}
	if q.FIBMatch && len(e.hops) > 1 {
		r.Hops = slices.Clone(e.hops)
	}
	return r
}

// guess is IPv4's "assume it on-link" in place of a refusal, outside VRFs.
func (m *model) guess(q policy.Query, oif *link, refusal policy.Route) policy.Route {
	if oif == nil || q.Dst.Is6() || oif.Master != 0 && m.links[oif.Master].Kind == "vrf" {
		return refusal
	}
	if q.FIBMatch {
		return negative(policy.RouteUnreachable, syscall.EHOSTUNREACH)
	}
	return policy.Route{Kind: policy.RouteUnicast, Ifindex: q.Oif}
}

// source returns the address that the kernel would choose on a link.
func (m *model) source(l *link, dst netip.Addr) netip.Addr {
	for _, p := range l.addrs {
		if p.Addr().Is4() == dst.Is4() && p.Addr().IsLinkLocalUnicast() == dst.IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// IP runs the few ip commands that the tests and the remedies use.
func (m *model) IP(command string) error {
	words := strings.Fields(command)
	if len(words) < 3 {
		return errors.New("too short: " + command)
	}
	args := words[2:]
	switch strings.Join(words[:2], " ") {
	case "addr add", "addr replace", "addr del":
		return m.addr(words[1], args)
	case "link add":
		i := policy.Interface{Name: args[0], MTU: 1500, Kind: value(args, "type")}
		i.Table, _ = strconv.Atoi(value(args, "table"))
		m.add(i)
		return nil
	case "link set", "link del":
		return m.link(words[1], args)
	case "rule add":
		table, err := strconv.Atoi(value(args, "lookup"))
		m.rules = append(m.rules, rule{netip.MustParseAddr(value(args, "from")), table})
		return err
	case "route add", "route replace":
		return m.routeAdd(args)
	}
	return errors.New("not known: " + command)
}

func value(args []string, key string) string {
	if i := slices.Index(args, key); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

func (m *model) addr(verb string, args []string) error {
	p, l := netip.MustParsePrefix(args[0]), m.named(value(args, "dev"))
	if l == nil {
		return syscall.ENODEV
	}
	host := netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
	hop := []policy.Hop{{Ifindex: l.Index}}
	if verb == "del" || verb == "replace" {
		l.addrs = slices.DeleteFunc(l.addrs, func(a netip.Prefix) bool { return a == p })
		m.routes = slices.DeleteFunc(m.routes, func(e entry) bool {
			return (e.dst == host || e.dst == p.Masked()) && len(e.hops) == 1 && e.hops[0].Ifindex == l.Index
		})
	}
	if verb != "del" {
		l.addrs = append(l.addrs, p)
		tables := [2]int{tableMain, tableLocal}
		if l.Master != 0 && m.links[l.Master].Kind == "vrf" {
			tables = [2]int{m.links[l.Master].Table, m.links[l.Master].Table}
		}
		m.routes = append(m.routes, entry{tables[0], p.Masked(), policy.RouteUnicast, hop}, entry{tables[1], host, policy.RouteLocal, hop})
	}
	return nil
}

func (m *model) link(verb string, args []string) error {
	l := m.named(args[0])
	if l == nil {
		return syscall.ENODEV
	}
	if verb == "del" {
		delete(m.links, l.Index)
		return nil
	}
	switch args[1] {
	case "up", "down":
		l.Up = args[1] == "up"
	case "mtu":
		l.MTU, _ = strconv.Atoi(args[2])
	case "name":
		l.Name = args[2]
	case "master":
		l.Master = m.named(args[2]).Index
		for i, e := range m.routes {
			if len(e.hops) == 1 && e.hops[0].Ifindex == l.Index && m.named(args[2]).Kind == "vrf" {
				m.routes[i].table = m.named(args[2]).Table
			}
		}
	default:
		return errors.New("not known: link set " + args[1])
	}
	return nil
}

func (m *model) routeAdd(args []string) error {
	e := entry{table: tableMain, kind: policy.RouteUnicast}
	for kind := range errnos {
		if args[0] == kind.String() {
			e.kind, args = kind, args[1:]
		}
	}
	switch args[0] {
	case "default":
		e.dst = netip.MustParsePrefix("::/0")
	default:
		e.dst = netip.MustParsePrefix(args[0])
	}
	if t := value(args, "table"); t != "" {
		e.table, _ = strconv.Atoi(t)
	}
	if v := value(args, "vrf"); v != "" {
		e.table = m.named(v).Table
	}
	for rest := args; ; {
		n := slices.Index(rest, "dev")
		if n < 0 {
			break
		}
		h := policy.Hop{Ifindex: m.named(rest[n+1]).Index, Weight: 1}
		if n >= 2 && rest[n-2] == "via" {
			h.Gateway = netip.MustParseAddr(rest[n-1])
		}
		e.hops = append(e.hops, h)
		rest = rest[n+2:]
	}
	m.routes = slices.DeleteFunc(m.routes, func(o entry) bool {
		return o.table == e.table && o.dst == e.dst && o.kind == e.kind && len(o.hops) == 0 && len(e.hops) == 0
	})
	m.routes = append(m.routes, e)
	return nil
}

// remedy runs the ip commands that a refusal gives.
func (m *model) remedy(text string) (commands []string, err error) {
	text, _, _ = strings.Cut(text, " (with")
	for _, c := range strings.Split(text, "; ") {
		rest, ok := strings.CutPrefix(c, "ip ")
		if !ok {
			continue
		}
		rest = strings.TrimPrefix(rest, "-6 ")
		commands = append(commands, rest)
		err = errors.Join(err, m.IP(rest))
	}
	return commands, err
}
