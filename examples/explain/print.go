package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/railbind/railbind/cm/policy"
)

func (r report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return r.printJSON(w)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

func (r report) text() string {
	d := r.decision
	if d.Verdict == policy.Undecided && d.Reason == "" && r.unknown != nil {
		d.Reason = r.unknown.Error()
	}
	s := d.Text()
	if r.kernel != nil {
		s += fmt.Sprintf("%-12s %s\n", "kernel", r.kernel.text())
	}
	return s
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

// printJSON writes the decision's own keys; where nothing was decided, error
// and errno say why, and resolved holds what the kernel made of it.
func (r report) printJSON(w io.Writer) error {
	raw, err := json.Marshal(r.decision)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	if r.unknown != nil {
		m["verdict"] = policy.Undecided
		m["error"], m["errno"] = name(r.unknown), errnoName(r.unknown)
		m["reason"] = r.unknown.Error()
	}
	if k := r.kernel; k != nil {
		m["resolved"] = k.json()
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(m)
}

// json is the kernel's place, if it gave one, and whether it confirms the
// decision.
func (k *answer) json() any {
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
