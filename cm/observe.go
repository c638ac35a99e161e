package cm

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"

	"github.com/railbind/railbind/cm/policy"
)

// Counters count what the binding rule has decided in this process, for dialed
// connections and for requests that listeners were asked to take.
//
//	expvar.Publish("railbind", expvar.Func(func() any { return cm.ReadCounters() }))
type Counters struct {
	Accepted      uint64 `json:"accepted"`
	Overridden    uint64 `json:"overridden"`      // of Accepted: the host's own route leads elsewhere
	AssumedOnLink uint64 `json:"assumed_on_link"` // of Accepted: no route, the kernel takes the peer to be on the link
	// Refused counts by the name of the error: ErrRouteMismatch, ErrDeviceSplit...
	Refused map[string]uint64 `json:"refused"`
}

var counters struct {
	sync.Mutex
	Counters
}

// ReadCounters gives the counters as they are. It is safe for concurrent use.
func ReadCounters() Counters {
	counters.Lock()
	defer counters.Unlock()
	c := counters.Counters
	c.Refused = maps.Clone(c.Refused)
	if c.Refused == nil {
		c.Refused = map[string]uint64{}
	}
	return c
}

// accepted counts and logs an acceptance.
func (id *ID) accepted(d Decision) {
	counters.Lock()
	counters.Accepted++
	if d.Overridden {
		counters.Overridden++
	}
	if d.AssumedOnLink {
		counters.AssumedOnLink++
	}
	counters.Unlock()
	if l := id.cfg.Logger; l != nil {
		l.LogAttrs(context.Background(), slog.LevelInfo, "binding rule: accepted", slog.Any("decision", d))
	}
}

// refused counts and logs an error of the rule; others are none of its business.
// What the rule foresaw is a warning, what the kernel did against it an error.
func (id *ID) refused(err error) {
	name := policy.SentinelName(err)
	if name == "" {
		return
	}
	counters.Lock()
	if counters.Refused == nil {
		counters.Refused = make(map[string]uint64)
	}
	counters.Refused[name]++
	counters.Unlock()
	l := id.cfg.Logger
	if l == nil {
		return
	}
	level := slog.LevelWarn
	if errors.Is(err, ErrDeviceSplit) || errors.Is(err, ErrBindingLost) || errors.Is(err, ErrKernelBindRegression) {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("error", name), slog.String("text", err.Error())}
	if d := id.Decision(); d.Err != nil && errors.Is(err, d.Err) {
		attrs = append(attrs, slog.Any("decision", d))
	}
	l.LogAttrs(context.Background(), level, "binding rule: refused", attrs...)
}
