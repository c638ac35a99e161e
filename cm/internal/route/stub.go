//go:build !linux

package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/railbind/railbind/cm/policy"
)

var errSystem = fmt.Errorf("route look-ups need Linux: %w", errors.ErrUnsupported)

// Handle answers no question on this system.
type Handle struct{}

// Mark is a moment, for Since.
type Mark uint64

// Open returns an error that matches errors.ErrUnsupported.
func Open() (*Handle, error) { return nil, errSystem }

func (h *Handle) Close() error  { return nil }
func (h *Handle) NetNS() uint64 { return 0 }

func (h *Handle) KernelVersion() (major, minor int) { return 0, 0 }

func (h *Handle) Route(policy.Query) (policy.Route, error)      { return policy.Route{}, errSystem }
func (h *Handle) Owners(netip.Addr) ([]policy.Interface, error) { return nil, errSystem }
func (h *Handle) Interface(int) (policy.Interface, error)       { return policy.Interface{}, errSystem }
func (h *Handle) InterfaceByName(string) (policy.Interface, error) {
	return policy.Interface{}, errSystem
}
func (h *Handle) Interfaces() ([]policy.Interface, error)      { return nil, errSystem }
func (h *Handle) Addrs(int) ([]netip.Prefix, error)            { return nil, errSystem }
func (h *Handle) RDMALinks() ([]RDMALink, error)               { return nil, errSystem }
func (h *Handle) ExclusiveRDMA() bool                          { return false }
func (h *Handle) Neighbour(int, netip.Addr) (Neighbour, error) { return Neighbour{}, errSystem }
func (h *Handle) Nudge(int, netip.Addr) error                  { return errSystem }
func (h *Handle) Mark() Mark                                   { return 0 }
func (h *Handle) Since(Mark) []policy.Change                   { return nil }
func (h *Handle) Watch(context.Context) (<-chan struct{}, error) {
	return nil, errSystem
}

// Requests counts nothing.
func (h *Handle) Requests() uint64 { return 0 }
