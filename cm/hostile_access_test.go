//go:build linux

package cm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/ibv"
)

// loan is a page that the server of a connection lends to its client, with one on
// each side that it does not.
type loan struct {
	client, server *Conn
	mem            []byte
	mr             *ibv.MR
	window         *ibv.MW
	other          *ibv.PD
}

const page = 4096

// lend registers the middle page for a peer.
func (l *loan) lend(t *testing.T, pd *ibv.PD, access ibv.Access) {
	var err error
	l.mr, err = pd.Register(l.mem[page:2*page], access)
	require.NoError(t, err)
}

// show lends a part of the page by a window, and tells the client when it can.
func (l *loan) show(t *testing.T, access ibv.Access) {
	var err error
	l.window, err = l.server.PD().AllocMW(ibv.MWType1)
	require.NoError(t, err)
	require.NoError(t, l.server.QP().BindMW(0, 0, l.window, ibv.Bind{MR: l.mr, Offset: 1024, Length: 1024, Access: access}))
	require.NoError(t, l.server.Send(within(t, time.Minute), nil)) // after the bind
	_, err = l.client.Recv(within(t, time.Minute), nil)
	require.NoError(t, err)
}

func (l *loan) at(offset int) ibv.Remote { return l.mr.Remote(offset) }

// siwAllows is what siw lets a peer write or read: within the protection domain of
// the connection it asks no right of a region that is READ (siw_check_sgl_tx). It
// has no windows.
var siwAllows = map[bool][]string{
	true: windows,
	false: append([]string{"to read what it may write", "a region of no rights", "a region for receives",
		"the connection's own receives"}, windows...),
}

var windows = []string{"a window, a byte beyond", "the region beneath a window", "a window that was taken back"}

// TestPairHostileAccess: a peer that reads and writes what it was not lent gets an
// error, and nothing else.
func TestPairHostileAccess(t *testing.T) {
	needTopo(t, "pair")
	const both, n = ibv.RemoteRead | ibv.RemoteWrite, 3000 // two packets
	l := besieged(t, ListenConfig{})
	for name, c := range map[string]struct {
		access      ibv.Access
		read, write bool // what of it is forbidden
		// reach says where the peer reaches; before that it may do honest things.
		reach func(t *testing.T, l *loan) ibv.Remote
	}{
		"a key of nothing": {both, true, true, func(t *testing.T, l *loan) ibv.Remote {
			return ibv.Remote{Addr: l.mr.Addr(), RKey: l.mr.RKey() ^ 0xffff00}
		}},
		"another tag of the key": {both, true, true, func(t *testing.T, l *loan) ibv.Remote {
			return ibv.Remote{Addr: l.mr.Addr(), RKey: ibv.NextRKey(l.mr.RKey())}
		}},
		"a byte before":   {both, true, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(-1) }},
		"a byte beyond":   {both, true, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(page - n + 1) }},
		"the page before": {both, true, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(-page) }},
		"the page behind": {both, true, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(page) }},
		"around the end of memory": {both, true, true, func(t *testing.T, l *loan) ibv.Remote {
			return ibv.Remote{Addr: -n / 2 & (1<<64 - 1), RKey: l.mr.RKey()}
		}},
		"to write what it may read": {ibv.RemoteRead, false, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(0) }},
		"to read what it may write": {ibv.RemoteWrite, true, false, func(t *testing.T, l *loan) ibv.Remote { return l.at(0) }},
		"a region of no rights":     {0, true, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(0) }},
		"a region for receives":     {ibv.LocalWrite, true, true, func(t *testing.T, l *loan) ibv.Remote { return l.at(0) }},
		"the connection's own receives": {both, true, true, func(t *testing.T, l *loan) ibv.Remote {
			return l.server.m.mr.Remote(0)
		}},
		"what another connection was lent": {both, true, true, func(t *testing.T, l *loan) ibv.Remote {
			require.NoError(t, l.mr.Close())
			var err error
			l.other, err = l.server.ID().Context().AllocPD()
			require.NoError(t, err)
			l.lend(t, l.other, both)
			return l.at(0)
		}},
		"a region that was taken back": {both, true, true, func(t *testing.T, l *loan) ibv.Remote {
			r := l.at(0)
			require.NoError(t, l.mr.Close())
			return r
		}},
		"a window, a byte beyond": {ibv.MWBind | ibv.LocalWrite, true, true, func(t *testing.T, l *loan) ibv.Remote {
			l.show(t, both)
			return ibv.Remote{Addr: l.at(2048 - n + 1).Addr, RKey: l.window.RKey()}
		}},
		"the region beneath a window": {ibv.MWBind | ibv.LocalWrite, true, true, func(t *testing.T, l *loan) ibv.Remote {
			l.show(t, both)
			return l.at(1024)
		}},
		"a window that was taken back": {ibv.MWBind | ibv.LocalWrite, true, true, func(t *testing.T, l *loan) ibv.Remote {
			l.show(t, both)
			r := ibv.Remote{Addr: l.at(1024).Addr, RKey: l.window.RKey()}
			require.NoError(t, l.window.Close())
			return r
		}},
	} {
		for write, forbidden := range map[bool]bool{false: c.read, true: c.write} {
			if forbidden && (!iwarp() || !slices.Contains(siwAllows[write], name)) {
				t.Run(fmt.Sprintf("%s, write %v", name, write), func(t *testing.T) {
					client, server := meet(t, l, Dialer{LocalAddr: ap(home)}, AcceptConfig{})
					lent := &loan{client: client, server: server, mem: bytes.Repeat([]byte{0xca}, 3*page)}
					own, err := client.PD().AllocMR(page, ibv.LocalWrite)
					require.NoError(t, err)
					for i := range own.Bytes() {
						own.Bytes()[i] = 0x5a
					}
					lent.lend(t, server.PD(), c.access)
					remote := c.reach(t, lent)

					do := client.Read
					if write {
						do = client.Write
					}
					err = do(within(t, time.Minute), own.SGE(0, n), remote)
					if err == nil && iwarp() { // a WRITE that TCP has taken
						_, err = client.Recv(within(t, time.Minute), nil)
					}
					require.ErrorIs(t, err, ErrDisconnected)
					if !iwarp() { // whose connections just end
						require.ErrorIs(t, err, ibv.WCRemAccessErr)
					}
					require.Equal(t, bytes.Repeat([]byte{0xca}, 3*page), lent.mem, "nothing was written")
					require.Equal(t, bytes.Repeat([]byte{0x5a}, page), own.Bytes(), "nothing was read")

					require.NoError(t, own.Close())
					require.NoError(t, client.Close())
					_, err = server.Recv(within(t, time.Minute), nil)
					require.ErrorIs(t, err, ErrDisconnected)
					require.NoError(t, lent.window.Close())
					require.NoError(t, lent.mr.Close())
					require.NoError(t, lent.other.Close())
					require.NoError(t, server.Close())
				})
			}
		}
	}
}
