// Package peer is what the commands that connect have in common.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
	"github.com/railbind/railbind/examples/internal/program"
	"github.com/railbind/railbind/ibv"
)

// Exit statuses.
const (
	OK          = program.OK
	Failed      = 1
	Misuse      = program.Misuse
	NoRDMA      = 3
	Refused     = 4
	Interrupted = 130
)

// Status is the exit status for an error: it tells apart what a script may want
// to tell apart.
func Status(err error) int {
	var rule *cm.PolicyError
	switch {
	case errors.Is(err, ibv.ErrNoRDMA), errors.Is(err, errors.ErrUnsupported):
		return NoRDMA
	case errors.As(err, &rule) && !errors.Is(err, cm.ErrLookup):
		return Refused
	}
	return Failed
}

// AddressOf is the address of a device in the family of an unspecified one.
func AddressOf(device string, family netip.Addr) (netip.Addr, error) {
	h, err := cm.OpenHost()
	if err != nil {
		return family, err
	}
	defer h.Close()
	if ports, err := h.RDMAPorts(); err == nil && len(ports) == 0 {
		return family, fmt.Errorf("%w: there is no RDMA device (rdma link)", ibv.ErrNoRDMA)
	}
	return policy.PickLocal(h, device, family)
}

// Listening says where a listener waits.
func Listening(l *cm.Listener) string {
	b := l.Binding()
	if b.Device == "" {
		return fmt.Sprintf("listening on %v, all devices", l.Addr())
	}
	return fmt.Sprintf("listening on %v, %s (%s)", l.Addr(), b.Device, b.Netdev)
}

// WithLimit runs one wait under a limit of its own. Whose time is up is said in
// the error.
func WithLimit(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	limit, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := f(limit)
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v (-timeout): %w", d, err)
	}
	return err
}
