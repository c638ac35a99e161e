//go:build linux

package route

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelVersion returns the first two numbers of the kernel's release, zeros
// where it has none.
func (h *Handle) KernelVersion() (major, minor int) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0, 0
	}
	return release(unix.ByteSliceToString(u.Release[:]))
}

func release(s string) (major, minor int) {
	first, rest, _ := strings.Cut(s, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	major, _ = strconv.Atoi(first)
	minor, _ = strconv.Atoi(rest)
	return major, minor
}
