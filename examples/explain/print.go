package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/railbind/railbind/cm/policy"
)

func (r report) print(w io.Writer) error {
	if r.json {
		return r.printJSON(w, nil)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// row is a line of the text. Several rows of one key follow each other.
type row struct{ key, value string }

func (r report) text() string { return layOut(r.rows(), nil) }

// layOut aligns the rows; below one that was different it says how it was.
func layOut(rows []row, before map[string]string) string {
	var b strings.Builder
	last := ""
	for _, l := range rows {
		again := l.key == last
		last = l.key
		if l.key == "" {
			fmt.Fprintf(&b, "%s\n", l.value)
			continue
		}
		if again {
			fmt.Fprintf(&b, "%-12s %s\n", "", l.value)
			continue
		}
		fmt.Fprintf(&b, "%-12s %s\n", label(l.key), l.value)
		if was, ok := before[l.key]; ok && was != l.value {
			fmt.Fprintf(&b, "%-12s %s\n", "   was", was)
		}
	}
	return b.String()
}

// label is a key without the destination that makes it unique.
func label(key string) string {
	_, l, _ := strings.Cut(key, "\t")
	return l
}

func (r report) rows() []row {
	out := []row{{"\tasked", r.words()}}
	if r.name != "" && r.unknownName() == nil {
		var addrs []string
		for i, f := range r.findings {
			s := f.decision.Request.Dst.Addr().String()
			if i == r.taken && f.status() == statusAccepted {
				s += " (taken)"
			}
			addrs = append(addrs, s)
		}
		for _, a := range r.skipped {
			addrs = append(addrs, a.String()+" (not tried: of the other family)")
		}
		out = append(out, row{"\tname", r.name + " is " + strings.Join(addrs, ", ")})
	}
	for _, f := range r.findings {
		dst := text(f.decision.Request.Dst)
		if len(r.findings) > 1 {
			out = append(out, row{value: ""}, row{value: "-- to " + dst})
		}
		out = append(out, f.rows(dst)...)
	}
	return out
}

// unknownName says why a name could not be looked up, nil where it could.
func (r report) unknownName() error {
	if f := r.findings[0]; r.name != "" && !f.decision.Request.Dst.Addr().IsValid() {
		return f.unknown
	}
	return nil
}

func (f finding) rows(dst string) (out []row) {
	add := func(key, value string) { out = append(out, row{dst + "\t" + key, value}) }
	if u := f.unbound; u != nil {
		add("unbound", hostAlone(*u))
	}
	d := f.decision
	if d.Verdict == policy.Undecided && d.Reason == "" && f.unknown != nil {
		d.Reason = f.unknown.Error()
	}
	key := ""
	for _, l := range strings.Split(strings.TrimSuffix(d.Text(), "\n"), "\n") {
		if len(l) < 13 {
			continue
		}
		if k := strings.TrimSpace(l[:12]); k != "" {
			key = k
		}
		if key == "kernel" {
			continue
		}
		if key == "destination" && !d.Request.Dst.Addr().IsValid() {
			continue // a name that is not known
		}
		add(key, l[13:])
	}
	if f.kernel != nil {
		add("kernel", f.kernel.text())
	}
	return out
}

// hostAlone is what the host would do with nothing bound.
func hostAlone(u policy.Decision) string {
	route := u.HostRoute
	route.Hops = u.HostFIB.Hops
	switch name := policy.SentinelName(u.Err); {
	case u.Verdict == policy.Accepted:
		return fmt.Sprintf("%v, so %s", route, places(u.Predicted))
	case errors.Is(u.Err, policy.ErrNoRoute):
		return route.String()
	default:
		return fmt.Sprintf("%v, so refused: %s", route, name)
	}
}

func place(t policy.Target) string { return fmt.Sprintf("%s/%d on %s", t.Device, t.Port, t.Netdev) }

func places(list []policy.Target) string {
	var out []string
	for _, t := range list {
		out = append(out, place(t))
	}
	return strings.Join(out, " or ")
}

func (k *answer) text() string {
	switch at := k.decision.Resolved; {
	case k.differs != "":
		return "does not confirm: " + k.differs
	case at == nil:
		return "agrees: refused before the connection manager was asked"
	default:
		return fmt.Sprintf("agrees: resolved on %s/%d, %v -> %v, SGID %v", at.Device, at.Port, at.Local, at.Peer, at.SGID)
	}
}

// object is what schema.json describes.
type object map[string]any

// printJSON writes an object; changed, where it is not nil, says what has changed
// since the one before, and keeps it on one line.
func (r report) printJSON(w io.Writer, changed []string) error {
	o, err := r.object()
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if changed != nil {
		o["time"], o["changed"] = r.at.Format(time.RFC3339Nano), changed
	} else {
		e.SetIndent("", "  ")
	}
	return e.Encode(o)
}

// object is the finding that is taken, and the others beside it.
func (r report) object() (object, error) {
	top, err := r.findings[r.taken].object()
	if err != nil {
		return nil, err
	}
	others := []object{}
	for i, f := range r.findings {
		if i == r.taken {
			continue
		}
		o, err := f.object()
		if err != nil {
			return nil, err
		}
		others = append(others, o)
	}
	top["target"], top["alternatives"] = r.target, others
	top["skipped"] = append([]string{}, texts(r.skipped)...)
	return top, nil
}

func texts[T fmt.Stringer](list []T) (out []string) {
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}

// object has the decision's own keys; where nothing was decided, error and errno
// say why; unbound holds the host's own choice, and resolved what the kernel made
// of it.
func (f finding) object() (object, error) {
	m, err := decisionObject(f.decision)
	if err != nil {
		return nil, err
	}
	if f.unknown != nil {
		m["verdict"] = policy.Undecided
		m["error"], m["errno"] = name(f.unknown), errnoName(f.unknown)
		m["reason"] = f.unknown.Error()
	}
	m["unbound"] = nil
	if f.unbound != nil {
		u, err := decisionObject(*f.unbound)
		if err != nil {
			return nil, err
		}
		m["unbound"] = object{"verdict": u["verdict"], "error": u["error"], "errno": u["errno"], "reason": u["reason"],
			"route": u["host_route"], "predicted": u["predicted"]}
	}
	m["port_space"] = f.decision.Request.PortSpace.String()
	m["resolved"] = nil
	if k := f.kernel; k != nil {
		m["resolved"] = k.object()
	}
	return m, nil
}

func decisionObject(d policy.Decision) (m object, err error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return m, json.Unmarshal(raw, &m)
}

// object is the kernel's place, if it gave one, and whether it confirms the
// decision.
func (k *answer) object() any {
	out := struct {
		Agrees bool           `json:"agrees"`
		Kernel *policy.Kernel `json:"kernel"` // null where the kernel was not asked, or did not resolve
		Error  *string        `json:"error"`
		Errno  *string        `json:"errno"`
		Detail string         `json:"detail,omitempty"`
	}{Agrees: k.differs == "", Kernel: k.decision.Resolved, Detail: k.differs}
	if k.err != nil {
		out.Error, out.Errno = name(k.err), errnoName(k.err)
	}
	return out
}

// name is the name of an error's sentinel, nil where it has none.
func name(err error) *string {
	s := policy.SentinelName(err)
	var none *noRDMAError
	if errors.As(err, &none) {
		s = "ErrNoRDMA"
	}
	if s == "" {
		return nil
	}
	return &s
}

func errnoName(err error) *string {
	var errno syscall.Errno
	var none *noRDMAError
	switch {
	case errors.As(err, &none):
		errno = syscall.ENODEV
	case !errors.As(err, &errno):
		return nil
	}
	s := policy.ErrnoName(errno)
	return &s
}
