package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// answer returns a route in words.
func (r Route) answer() string {
	switch r.Kind {
	case RouteNotAsked:
		return "not asked"
	case RouteUnicast, RouteMulticast, RouteBroadcast, RouteAnycast:
		s := fmt.Sprintf("%s via %s", r.Kind, r.dev())
		if r.Gateway.IsValid() {
			s += ", gateway " + r.Gateway.String()
		}
		if len(r.Hops) > 0 {
			s += ", next hops " + r.hops()
		}
		return s
	case RouteLocal:
		return "local, dev " + r.dev()
	}
	if r.Errno != 0 {
		return fmt.Sprintf("%s (%s)", r.Kind, ErrnoName(r.Errno))
	}
	return r.Kind.String()
}

func (r Route) dev() string { return devName(r.Netdev, r.Ifindex) }

func devName(name string, index int) string {
	if name == "" {
		return fmt.Sprintf("ifindex %d", index)
	}
	return name
}

func (r Route) hops() string {
	var out []string
	for _, h := range r.Hops {
		out = append(out, devName(h.Netdev, h.Ifindex))
	}
	return strings.Join(out, ", ")
}

// netdevs returns the network devices that a route may choose, given the table
// entry behind it.
func (r Route) netdevs(fib Route) []int {
	out := []int{r.Ifindex}
	for _, h := range fib.Hops {
		if !slices.Contains(out, h.Ifindex) {
			out = append(out, h.Ifindex)
		}
	}
	return out
}

// String returns the query and its answer on one line.
func (r Route) String() string { return r.Query.String() + ": " + r.answer() }

// String returns the query in the way of `ip route get`.
func (q Query) String() string {
	s := "to " + q.Dst.String()
	if q.Src.IsValid() {
		s += " from " + q.Src.String()
	}
	if q.Oif != 0 {
		s += fmt.Sprintf(" oif %d", q.Oif)
	}
	if q.FIBMatch {
		s += " fibmatch"
	}
	return s
}

// negative says whether a kind is a refusal of the kernel.
func (k RouteKind) negative() bool {
	return k == RouteNone || k == RouteUnreachable || k == RouteBlackhole || k == RouteProhibit
}

// hostAnswer returns the host's own route in words, with the owners of a local
// destination.
func (d *Decision) hostAnswer(owners []Interface) string {
	r := d.HostRoute
	r.Hops = d.HostFIB.Hops
	s := r.answer()
	if r.Kind == RouteLocal && len(owners) > 0 {
		s += ", an address of " + names(owners)
	}
	if d.Binding.VRF != "" {
		s += fmt.Sprintf(" (outside VRF %s)", d.Binding.VRF)
	}
	return s
}

// explain sets reason and remedy of an accepted, bound request.
func (d *Decision) explain(owners []Interface) {
	b := d.Binding
	d.Reason = fmt.Sprintf("the route leads through %s", b.Netdev)
	if d.Effective.Kind == RouteLocal {
		d.Reason = fmt.Sprintf("the destination is on %s itself: loopback on %s", b.Netdev, b.Device)
	}
	if d.Overridden {
		d.Reason = fmt.Sprintf("the host's own route is %s; the binding keeps %s on %s", d.hostAnswer(owners), b.Device, b.Netdev)
	}
	if d.AssumedOnLink {
		d.Reason += fmt.Sprintf("; no route through %s leads to the destination, so the kernel assumes it to be on that link, and if nobody answers there, resolving times out", b.Netdev)
		r := d.sourceRule()
		d.Remedy, d.Commands = r.String(), r.commands
	}
}

// String returns the decision on one line.
func (d Decision) String() string {
	s := fmt.Sprintf("%s %s -> %s: ", d.Policy, d.from(), addrText(d.Request.Dst))
	switch d.Verdict {
	case Undecided:
		return s + d.Verdict.String()
	case Refused:
		return s + fmt.Sprintf("refused, %s (%s): %s", orNone(SentinelName(d.Err)), ErrnoName(d.errno()), d.Reason)
	}
	return s + "accepted" + d.flags() + ", " + d.where() + ": " + d.Reason
}

func (d Decision) from() string {
	switch {
	case d.Binding.State != Unbound && d.Binding.Addr.Addr().IsValid():
		return addrText(d.Binding.Addr)
	case d.Request.Src.Addr().IsValid():
		return addrText(d.Request.Src)
	}
	return "any"
}

func (d Decision) flags() (s string) {
	if d.Overridden {
		s += ", overridden"
	}
	if d.AssumedOnLink {
		s += ", assumed on-link"
	}
	return s
}

func (d Decision) where() string {
	var out []string
	for _, t := range d.Predicted {
		out = append(out, fmt.Sprintf("%s/%d on %s", t.Device, t.Port, t.Netdev))
	}
	return strings.Join(out, " or ")
}

func orNone(s string) string {
	if s == "" {
		return "error"
	}
	return s
}

// errno returns the errno of a refusal, else 0.
func (d Decision) errno() syscall.Errno {
	var e *Error
	if errors.As(d.Err, &e) {
		return e.Errno
	}
	return 0
}

// Text returns the decision as lines for a human reader: what was asked, the
// binding, the routes, the verdict and what to do.
func (d Decision) Text() string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", key, fmt.Sprintf(format, args...))
	}
	asked := d.Policy.String()
	if d.Request.Policy != d.Policy {
		asked += fmt.Sprintf(" (asked: %s)", d.Request.Policy)
	}
	line("policy", "%s", asked)
	line("destination", "%s", addrText(d.Request.Dst))
	if d.Request.Src.Addr().IsValid() {
		line("source", "%s", addrText(d.Request.Src))
	}
	line("binding", "%s", d.Binding)
	if d.HostRoute.Kind != RouteNotAsked {
		r := d.HostRoute
		r.Hops = d.HostFIB.Hops
		line("host route", "%s", r)
	}
	if d.Effective.Kind != RouteNotAsked && d.Effective.Query != d.HostRoute.Query {
		line("bound route", "%s", d.Effective)
	}
	if d.FIB.Kind != RouteNotAsked && d.FIB.Query != d.HostFIB.Query {
		line("table entry", "%s", d.FIB)
	}
	switch d.Verdict {
	case Accepted:
		line("verdict", "accepted%s: %s", d.flags(), d.where())
	case Refused:
		line("verdict", "refused: %s, %s", orNone(SentinelName(d.Err)), ErrnoName(d.errno()))
	default:
		line("verdict", "%s", d.Verdict)
	}
	if d.Reason != "" {
		line("because", "%s", d.Reason)
	}
	key := "to do"
	for _, c := range d.Commands {
		line(key, "%s", c)
		key = ""
	}
	if words := d.words(); words != "" {
		line(key, "%s", words)
	}
	if k := d.Resolved; k != nil {
		line("kernel", "%s/%d, %s -> %s, SGID %s", k.Device, k.Port, addrText(k.Local), addrText(k.Peer), k.SGID)
	}
	return b.String()
}

// words returns the remedy without its commands.
func (d Decision) words() string {
	return strings.TrimLeft(strings.TrimPrefix(d.Remedy, strings.Join(d.Commands, "; ")), "; ")
}

// LogValue makes a log/slog record of the decision.
func (d Decision) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("policy", d.Policy.String()), slog.String("verdict", d.Verdict.String()),
		slog.String("destination", addrText(d.Request.Dst)), slog.String("binding", d.Binding.String()),
		slog.Bool("overridden", d.Overridden), slog.Bool("assumed_on_link", d.AssumedOnLink),
		slog.String("where", d.where()), slog.String("reason", d.Reason),
	}
	if d.Err != nil {
		attrs = append(attrs, slog.String("error", SentinelName(d.Err)), slog.String("errno", ErrnoName(d.errno())),
			slog.String("remedy", d.Remedy))
	}
	return slog.GroupValue(attrs...)
}

// MarshalJSON writes the keys policy, verdict, error (the sentinel's name or
// null), errno (its symbol or null), overridden, assumed_on_link, binding,
// effective_route, host_route and resolved (each null where there is none), and
// after them asked, destination, source, reason, remedy, commands, bind_first,
// predicted and lookups.
func (d Decision) MarshalJSON() ([]byte, error) {
	effective, host := d.Effective, d.HostRoute
	effective.Hops, host.Hops = d.FIB.Hops, d.HostFIB.Hops
	return json.Marshal(struct {
		Policy        Policy       `json:"policy"`
		Verdict       Verdict      `json:"verdict"`
		Error         *string      `json:"error"`
		Errno         *string      `json:"errno"`
		Overridden    bool         `json:"overridden"`
		AssumedOnLink bool         `json:"assumed_on_link"`
		Binding       Binding      `json:"binding"`
		Effective     *Route       `json:"effective_route"`
		Host          *Route       `json:"host_route"`
		Resolved      *Kernel      `json:"resolved"`
		Asked         Policy       `json:"asked"`
		Destination   string       `json:"destination"`
		Source        string       `json:"source,omitempty"`
		Reason        string       `json:"reason"`
		Remedy        string       `json:"remedy,omitempty"`
		Commands      []string     `json:"commands"`
		BindFirst     bool         `json:"bind_first,omitempty"`
		Predicted     []jsonTarget `json:"predicted"`
		Lookups       int          `json:"lookups"`
	}{
		d.Policy, d.Verdict, orNull(SentinelName(d.Err)), orNull(ErrnoName(d.errno())), d.Overridden, d.AssumedOnLink,
		d.Binding, asked(effective), asked(host), d.Resolved,
		d.Request.Policy, jsonAddr(d.Request.Dst), jsonAddr(d.Request.Src), d.Reason, d.Remedy, append([]string{}, d.Commands...), d.Bind, jsonTargets(d.Predicted), d.Lookups,
	})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func asked(r Route) *Route {
	if r.Kind == RouteNotAsked {
		return nil
	}
	return &r
}

// jsonAddr is addrText with nothing for no address.
func jsonAddr(a netip.AddrPort) string {
	if !a.Addr().IsValid() {
		return ""
	}
	return addrText(a)
}

type jsonTarget struct {
	Device  string    `json:"device"`
	Port    uint8     `json:"port"`
	Kind    Transport `json:"transport"`
	Netdev  string    `json:"netdev"`
	Ifindex int       `json:"ifindex"`
}

func jsonTargets(list []Target) []jsonTarget {
	out := []jsonTarget{}
	for _, t := range list {
		out = append(out, jsonTarget{t.Device, t.Port, t.Transport, t.Netdev, t.Ifindex})
	}
	return out
}

// MarshalJSON writes state, and where they exist address, since, device, port,
// transport, netdev, ifindex, mtu, gid, gid_index, gid_type, pkey and vrf.
func (b Binding) MarshalJSON() ([]byte, error) {
	type device struct {
		Device    string    `json:"device"`
		Port      uint8     `json:"port"`
		Transport Transport `json:"transport"`
		Netdev    string    `json:"netdev"`
		Ifindex   int       `json:"ifindex"`
		MTU       int       `json:"mtu"`
		GID       GID       `json:"gid"`
		GIDIndex  int       `json:"gid_index"`
		GIDType   GIDType   `json:"gid_type"`
		PKey      uint16    `json:"pkey,omitempty"`
		VRF       string    `json:"vrf,omitempty"`
	}
	out := struct {
		State   BindState `json:"state"`
		Address string    `json:"address,omitempty"`
		Since   time.Time `json:"since,omitzero"`
		*device
	}{State: b.State, Address: jsonAddr(b.Addr), Since: b.Since}
	if b.State == BoundDevice {
		out.device = &device{b.Device, b.Port, b.Transport, b.Netdev, b.Ifindex, b.MTU, b.GID, b.GIDIndex, b.GIDType, b.PKey, b.VRF}
	}
	return json.Marshal(out)
}

// MarshalJSON writes kind, and where they exist netdev, ifindex, gateway,
// source, table, hops and errno, and the query as text.
func (r Route) MarshalJSON() ([]byte, error) {
	type hop struct {
		Netdev  string     `json:"netdev"`
		Ifindex int        `json:"ifindex"`
		Gateway netip.Addr `json:"gateway,omitzero"`
		Weight  int        `json:"weight"`
	}
	var hops []hop
	for _, h := range r.Hops {
		hops = append(hops, hop{h.Netdev, h.Ifindex, h.Gateway, h.Weight})
	}
	return json.Marshal(struct {
		Kind    RouteKind  `json:"kind"`
		Netdev  string     `json:"netdev,omitempty"`
		Ifindex int        `json:"ifindex,omitempty"`
		Gateway netip.Addr `json:"gateway,omitzero"`
		Source  netip.Addr `json:"source,omitzero"`
		Table   int        `json:"table,omitempty"`
		Hops    []hop      `json:"hops,omitempty"`
		Errno   string     `json:"errno,omitempty"`
		Query   string     `json:"query"`
	}{r.Kind, r.Netdev, r.Ifindex, r.Gateway, r.PrefSrc, r.Table, hops, ErrnoName(r.Errno), r.Query.String()})
}

// MarshalJSON writes device, port, transport, local, peer, sgid, dgid and
// path_mtu, the last three where they are known.
func (k Kernel) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Device    string    `json:"device"`
		Port      uint8     `json:"port"`
		Transport Transport `json:"transport"`
		Local     string    `json:"local"`
		Peer      string    `json:"peer"`
		SGID      GID       `json:"sgid,omitzero"`
		DGID      GID       `json:"dgid,omitzero"`
		PathMTU   int       `json:"path_mtu,omitempty"`
	}{k.Device, k.Port, k.Transport, jsonAddr(k.Local), jsonAddr(k.Peer), k.SGID, k.DGID, k.PathMTU})
}
