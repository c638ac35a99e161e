//go:build linux

package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// timeout bounds every wait for the kernel's answer.
var timeout = unix.Timeval{Sec: 5}

// dumps is how often a dump is repeated that the kernel marks as torn.
const dumps = 5

// Handle asks the kernel about one network namespace. Its methods may be called
// concurrently and from any thread: the namespace is that of the sockets.
type Handle struct {
	route   *nl.SocketHandle
	rdma    *nl.SocketHandle // nil where the kernel has no RDMA
	rdmaErr error            // why
	netns   uint64
	ns      *os.File // the namespace itself, nil where /proc is missing
	journal journal
	memo    memo

	mu     sync.Mutex // guards closed against calls in flight
	closed bool

	requests atomic.Uint64
}

// Open opens the sockets in the network namespace of the calling OS thread; the
// caller locks the thread if that is not the process's own.
//
// A kernel without RDMA is no error here, but of RDMALinks.
func Open() (*Handle, error) {
	h := &Handle{netns: threadNS(), journal: journal{last: time.Now()}}
	var err error
	if h.ns, err = os.Open(threadNSPath()); transient(err) {
		return nil, fmt.Errorf("open this network namespace: %w", err)
	}
	if h.route, err = socket(unix.NETLINK_ROUTE); err != nil {
		h.ns.Close()
		return nil, fmt.Errorf("open a netlink route socket: %w", err)
	}
	if h.journal.file, err = sources[0].open(); err != nil {
		h.ns.Close()
		h.route.Close()
		return nil, fmt.Errorf("listen to the network's changes: %w", err)
	}
	if h.rdma, err = socket(unix.NETLINK_RDMA); transient(err) {
		h.ns.Close()
		h.route.Close()
		h.journal.file.Close()
		return nil, fmt.Errorf("open an RDMA netlink socket: %w", err)
	}
	if err != nil {
		h.rdma, h.rdmaErr = nil, fmt.Errorf("open an RDMA netlink socket: %w (no RDMA in this kernel: load ib_core): %w", err, errors.ErrUnsupported)
	}
	return h, nil
}

// transient tells what this process is short of now from what the kernel has not.
func transient(err error) bool {
	switch errnoOf(err) {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		return true
	}
	return false
}

func threadNSPath() string { return fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()) }

// threadNS returns the inode of the calling thread's network namespace, 0 where
// /proc is missing.
func threadNS() uint64 {
	var st unix.Stat_t
	if unix.Stat(threadNSPath(), &st) != nil {
		return 0
	}
	return st.Ino
}

func socket(protocol int) (*nl.SocketHandle, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), protocol)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(s.SetSendTimeout(&timeout), s.SetReceiveTimeout(&timeout)); err != nil {
		s.Close()
		return nil, err
	}
	return &nl.SocketHandle{Socket: s}, nil
}

// Close waits for a call in flight and closes the sockets. It may be called more
// than once, and on nil. Calls after it fail with os.ErrClosed.
func (h *Handle) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.ns.Close()
	h.route.Close()
	h.journal.file.Close()
	if h.rdma != nil {
		h.rdma.Close()
	}
	return nil
}

// NetNS returns the inode of the network namespace, 0 where /proc is missing.
func (h *Handle) NetNS() uint64 { return h.netns }

// Requests counts the netlink requests so far: what the look-ups of the rule cost.
func (h *Handle) Requests() uint64 { return h.requests.Load() }

// request makes one netlink request of fixed header and attributes and returns
// the payloads of the answers.
func (h *Handle) request(protocol, cmd, flags int, reply uint16, header []byte, attrs ...attr) ([][]byte, error) {
	if h == nil {
		return nil, os.ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, os.ErrClosed
	}
	s := h.route
	if protocol == unix.NETLINK_RDMA {
		if s = h.rdma; s == nil {
			return nil, h.rdmaErr
		}
	}
	raw := append([]byte(nil), header...)
	for _, a := range attrs {
		raw = a.append(raw)
	}
	for try := 1; ; try++ {
		h.requests.Add(1)
		req := nl.NewNetlinkRequest(cmd, flags)
		req.Sockets = map[int]*nl.SocketHandle{protocol: s}
		req.AddRawData(raw)
		out, err := req.Execute(protocol, reply)
		if errors.Is(err, nl.ErrDumpInterrupted) && try < dumps {
			continue
		}
		return out, err
	}
}

// attr is one netlink attribute.
type attr struct {
	kind  uint16
	value []byte
}

func (a attr) append(b []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(a.value)))
	b = binary.NativeEndian.AppendUint16(b, a.kind)
	b = append(b, a.value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func attr32(kind uint16, v uint32) attr {
	return attr{kind, binary.NativeEndian.AppendUint32(nil, v)}
}

// parse splits a message after its fixed header into attributes by kind. A
// malformed rest is left out.
func parse(b []byte, header int) map[uint16][]byte {
	out := map[uint16][]byte{}
	for _, a := range list(b, header) {
		out[a.kind] = a.value
	}
	return out
}

// list is parse in order, for attributes that repeat.
func list(b []byte, header int) (out []attr) {
	if len(b) < header {
		return nil
	}
	for b = b[header:]; len(b) >= 4; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		out = append(out, attr{kind, b[4:n]})
		if n = (n + 3) &^ 3; n > len(b) {
			break
		}
		b = b[n:]
	}
	return out
}

func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// errnoOf returns the errno of a netlink failure, 0 if it is none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}
