//go:build linux

package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// source is a kernel's multicast that tells of changes.
type source struct {
	protocol int
	groups   []int
	optional bool // an older kernel, or an unprivileged process, does without
	matters  func(message []byte) bool
}

// rdmaNotify is RDMA_NL_GROUP_NOTIFY, which kernels before 6.12 never use.
const rdmaNotify = 4

var sources = []source{
	{protocol: unix.NETLINK_ROUTE, groups: []int{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEXTHOP,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
	}},
	{protocol: unix.NETLINK_RDMA, groups: []int{rdmaNotify}, optional: true},
	// What udev hears: RDMA devices on all kernels, among devices of all kinds.
	{protocol: unix.NETLINK_KOBJECT_UEVENT, groups: []int{1}, optional: true, matters: func(m []byte) bool {
		return bytes.Contains(m, []byte("\x00SUBSYSTEM=infiniband")) // and infiniband_verbs
	}},
}

// Watch tells of changes of the namespace's links, addresses, routes, rules,
// nexthop objects and RDMA devices: a value in the channel says that something
// has changed since the last one was taken. It counts from Watch's return on,
// needs no privilege, and misses nothing: where messages were lost, it says that
// something changed. The channel is closed when ctx ends, or where the kernel
// tells no more.
func (h *Handle) Watch(ctx context.Context) (<-chan struct{}, error) {
	var heard []ear
	err := h.inside(func() (err error) {
		heard, err = listen()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watch the network: %w", err)
	}
	closeAll := func() {
		for _, e := range heard {
			_ = e.file.Close()
		}
	}
	stop := context.AfterFunc(ctx, closeAll)
	changed := make(chan struct{}, 1)
	var listening sync.WaitGroup
	for _, e := range heard {
		listening.Go(func() {
			defer closeAll() // one that is deaf would miss something
			for e.next() {
				select {
				case changed <- struct{}{}:
				default: // the value that waits there says it already
				}
			}
		})
	}
	go func() {
		defer close(changed)
		listening.Wait()
		stop()
	}()
	return changed, nil
}

// ear is a socket that hears a source, on Go's poller.
type ear struct {
	source
	file *os.File
}

// listen opens the sources in the calling thread's namespace.
func listen() (all []ear, err error) {
	for _, s := range sources {
		f, err := s.open()
		if err == nil {
			all = append(all, ear{s, f})
		} else if !s.optional {
			for _, e := range all {
				e.file.Close()
			}
			return nil, err
		}
	}
	return all, nil
}

func (s source) open() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, s.protocol)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "netlink")
	if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		f.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	for _, g := range s.groups {
		if err = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			f.Close()
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	return f, nil
}

// next waits for a message that matters; false is the end.
func (e ear) next() bool {
	conn, err := e.file.SyscallConn()
	if err != nil {
		return false
	}
	buf := make([]byte, 8192) // a longer message is cut; only that of udev is looked at
	for {
		var n int
		var got error
		err := conn.Read(func(fd uintptr) bool {
			n, _, got = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(got, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return false // closed
		case errors.Is(got, unix.EINTR):
		case errors.Is(got, unix.ENOBUFS):
			return true // messages were lost
		case got != nil:
			return false
		case e.matters == nil || e.matters(buf[:n]):
			return true
		}
	}
}

// inside runs f on a thread of the Handle's network namespace.
func (h *Handle) inside(f func() error) error {
	if h == nil {
		return os.ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if threadNS() != h.netns {
			// The thread is not unlocked: Go ends it with this goroutine.
			if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
				done <- fmt.Errorf("enter the network namespace again: %w", err)
				return
			}
			done <- f()
			return
		}
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	return <-done
}
