package policy

import (
	"fmt"
	"syscall"
)

// errnoNames holds the errnos that look-ups, refusals and connection manager
// events give. The numbers are not the same on all systems, so no list is
// complete, and any other prints as its number.
var errnoNames = map[syscall.Errno]string{
	syscall.EACCES: "EACCES", syscall.EOPNOTSUPP: "EOPNOTSUPP", syscall.EADDRINUSE: "EADDRINUSE", syscall.EADDRNOTAVAIL: "EADDRNOTAVAIL",
	syscall.EAFNOSUPPORT: "EAFNOSUPPORT", syscall.EAGAIN: "EAGAIN", syscall.EBUSY: "EBUSY",
	syscall.ECONNREFUSED: "ECONNREFUSED", syscall.ECONNRESET: "ECONNRESET", syscall.EHOSTUNREACH: "EHOSTUNREACH",
	syscall.EINTR: "EINTR", syscall.EINVAL: "EINVAL", syscall.EIO: "EIO", syscall.EMFILE: "EMFILE",
	syscall.ENETUNREACH: "ENETUNREACH", syscall.ENODEV: "ENODEV", syscall.ENOENT: "ENOENT",
	syscall.ENOMEM: "ENOMEM", syscall.ENOSYS: "ENOSYS", enotuniq: "ENOTUNIQ", syscall.EPERM: "EPERM",
	syscall.EPROTO: "EPROTO", syscall.ETIMEDOUT: "ETIMEDOUT", syscall.EXDEV: "EXDEV",
}

// ErrnoName returns the symbol of an errno, such as EHOSTUNREACH, "" for 0, and
// the number of one that has no name here.
func ErrnoName(errno syscall.Errno) string {
	if errno == 0 {
		return ""
	}
	if s, ok := errnoNames[errno]; ok {
		return s
	}
	return fmt.Sprintf("errno %d", int(errno))
}
