//go:build !linux

package ibv

import "syscall"

func mapMemory(int, BufferConfig) ([]byte, error) {
	return nil, &Error{Op: "map memory", Err: syscall.ENOSYS}
}

func unmapMemory([]byte) error { return &Error{Op: "unmap memory", Err: syscall.ENOSYS} }

func memlock() (limit, pinned int64) { return -1, -1 }

func isHuge([]byte) bool { return false }
