package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/examples/internal/peer"
	"github.com/railbind/railbind/ibv"
)

// members are this end's members of the group.
type members struct {
	*options
	r      *peer.Traffic
	stderr io.Writer
	all    []*member
}

type member struct {
	id *cm.ID
	*peer.Datagrams
	group *cm.Group
	to    ibv.Dest // the group
}

func (m *members) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, m.close()) }()
	for range m.Connections {
		if err := peer.WithLimit(ctx, m.Timeout, m.join); err != nil {
			return err
		}
	}
	m.r.Place(m.all[0].id)
	m.r.Remote, m.r.Connections = m.group.String(), len(m.all)
	fmt.Fprintf(m.stderr, "%s: joined %v on %s (%s)\n", m.Name, m.group, m.r.Device, m.r.Netdev)
	move := m.receive
	if m.sends {
		move = m.send
		select {
		case <-time.After(m.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	began := time.Now()
	err = peer.Each(len(m.all), func(i int) error { return move(ctx, m.all[i]) })
	for _, one := range m.all {
		m.r.Add(&one.Messages)
	}
	m.r.Seconds = time.Since(began).Seconds()
	return err
}

// join makes a member. Its queue pair and receives are there before the group's
// messages can come.
func (m *members) join(ctx context.Context) error {
	id, err := m.Resolve(ctx, cm.PortSpaceUDP, netip.AddrPortFrom(m.group, 0))
	if err != nil {
		return err
	}
	one := &member{id: id}
	m.all = append(m.all, one)
	receives := m.Count
	if m.sends {
		receives = 0 // what a sender hears of itself has nowhere to go
	}
	if one.Datagrams, err = peer.NewDatagrams(id, m.Size, m.Count, receives); err != nil {
		return err
	}
	if one.group, err = id.JoinMulticast(ctx, m.group, cm.JoinConfig{SendOnly: m.sendsOnly, Timeout: m.Timeout}); err != nil {
		return err
	}
	one.to, err = one.group.Peer().Dest(one.PD())
	return err
}

func (m *members) send(ctx context.Context, one *member) error {
	return peer.WithLimit(ctx, m.Timeout, func(ctx context.Context) error {
		return one.Send(ctx, one.to, peer.Pattern(m.Size), m.Count)
	})
}

// receive waits as long as it takes until somebody sends, and then no longer than
// the time limit for the rest.
func (m *members) receive(ctx context.Context, one *member) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-one.group.Lost():
			stop(one.group.Err())
		case <-ctx.Done():
		}
	}()
	err := one.Receive(ctx, min(1, m.Count))
	if err == nil {
		err = peer.WithLimit(ctx, m.Timeout, func(ctx context.Context) error { return one.Receive(ctx, m.Count) })
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return err
}

func (m *members) close() error {
	var errs []error
	for _, one := range m.all {
		errs = append(errs, one.to.AH.Close(), one.group.Leave())
		if one.Datagrams != nil {
			errs = append(errs, one.Close())
		}
		errs = append(errs, one.id.Close())
	}
	return errors.Join(errs...)
}
