package ibv

import (
	"fmt"
	"net/netip"
)

// GIDQuery says which row of a GID table is meant: all that is set must fit.
type GIDQuery struct {
	Addr   netip.Addr // the GID that this address has on RoCE; a zone is not looked at
	GID    GID        // the GID itself
	Type   GIDType    // 0: of any type, RoCE v2 preferred
	Port   uint8      // 0: of any port
	Netdev int        // interface index; 0: of any network device
}

func (q GIDQuery) String() string {
	s := ""
	if q.Addr.IsValid() {
		s += " address " + q.Addr.String()
	}
	if !q.GID.IsZero() {
		s += " GID " + q.GID.String()
	}
	if q.Type != 0 {
		s += " type " + q.Type.String()
	}
	if q.Port != 0 {
		s += fmt.Sprintf(" port %d", q.Port)
	}
	if q.Netdev != 0 {
		s += fmt.Sprintf(" netdev index %d", q.Netdev)
	}
	if s == "" {
		return "any row"
	}
	return s[1:]
}

func (q GIDQuery) fits(e GIDEntry) bool {
	return (!q.Addr.IsValid() || e.GID == GIDOf(q.Addr)) && (q.GID.IsZero() || e.GID == q.GID) &&
		(q.Type == 0 || e.Type == q.Type) && (q.Port == 0 || e.Port == q.Port) && (q.Netdev == 0 || e.Netdev == q.Netdev)
}

// LookupGID finds a row of the GID tables, as they are now: rows move when
// addresses come and go. Of several that fit it is the one of the highest type,
// of those the first. The error matches ErrNoDevice where none fits.
//
// Implements: ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags)
func (c *Context) LookupGID(q GIDQuery) (GIDEntry, error) {
	table, err := c.GIDTable()
	if err != nil {
		return GIDEntry{}, err
	}
	e, ok := lookupGID(table, q)
	if !ok {
		return GIDEntry{}, invalid("look up GID", c.name, ErrNoDevice, "none of the %d rows of its GID table has %v", len(table), q)
	}
	return e, nil
}

func lookupGID(table []GIDEntry, q GIDQuery) (found GIDEntry, ok bool) {
	for _, e := range table {
		if q.fits(e) && (!ok || e.Type > found.Type) {
			found, ok = e, true
		}
	}
	return found, ok
}

// QueryGIDOnly reads a GID without its type and network device, which also old
// kernels can. A row that is not in use is zero.
//
// Implements: int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
func (c *Context) QueryGIDOnly(port uint8, index int) (GID, error) {
	const op = "query GID"
	if err := c.life().enter(op); err != nil {
		return GID{}, err
	}
	defer c.node.leave()
	g, err := c.h.QueryGIDOnly(port, index)
	if err != nil {
		return GID{}, fail(op, c.name, err)
	}
	return GID(g), nil
}
