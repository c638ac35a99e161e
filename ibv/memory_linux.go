package ibv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// mapMemory maps zeroed memory that the garbage collector knows nothing of.
func mapMemory(size int, huge bool) ([]byte, error) {
	const op = "map memory"
	if size <= 0 {
		return nil, invalid(op, "", ErrInvalid, "size %d", size)
	}
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANON
	if huge {
		page := hugePageSize()
		if page == 0 {
			return nil, &Error{Op: op, Err: syscall.EOPNOTSUPP, Hint: "this kernel has no huge pages"}
		}
		size = (size + page - 1) / page * page
		flags |= syscall.MAP_HUGETLB
	}
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		e := &Error{Op: op, Err: err}
		if huge && errors.Is(err, syscall.ENOMEM) {
			e.Hint = fmt.Sprintf("not enough huge pages for %d bytes: reserve some with sysctl vm.nr_hugepages", size)
		}
		return nil, e
	}
	return mem, nil
}

func unmapMemory(mem []byte) error {
	if err := syscall.Munmap(mem); err != nil {
		return &Error{Op: "unmap memory", Err: err}
	}
	return nil
}

// hugePageSize is the size of the system's default huge page, 0 for none.
func hugePageSize() int { return procKB("/proc/meminfo", "Hugepagesize:") }

// procKB reads a line like "VmPin:   12 kB" of a file in /proc, in bytes; 0
// where there is none.
func procKB(file, key string) int {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), key); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(v, " kB")))
			return n << 10
		}
	}
	return 0
}

// memlock returns the soft limit of locked memory and what is pinned already,
// in bytes, -1 for what is unlimited or unknown. RDMA's pages count as VmPin.
func memlock() (limit, pinned int64) {
	limit, pinned = -1, int64(procKB("/proc/self/status", "VmPin:"))
	var r syscall.Rlimit
	const rlimitMemlock = 8 // RLIMIT_MEMLOCK, which package syscall lacks
	if syscall.Getrlimit(rlimitMemlock, &r) == nil && r.Cur < 1<<63 {
		limit = int64(r.Cur)
	}
	return limit, pinned
}

// isHuge reports whether the memory lies in a mapping of huge pages.
func isHuge(mem []byte) bool {
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return false
	}
	defer f.Close()
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if v, ok := strings.CutPrefix(line, "KernelPageSize:"); ok {
			kb, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(v, " kB")))
			if inside {
				return kb<<10 > os.Getpagesize()
			}
			continue
		}
		if from, to, ok := mapping(line); ok {
			inside = from <= addr && addr < to
		}
	}
	return false
}

// mapping parses the first line of an entry of smaps, "7f00-7f01 rw-p ...".
func mapping(line string) (from, to uint64, ok bool) {
	span, _, _ := strings.Cut(line, " ")
	a, b, ok := strings.Cut(span, "-")
	if !ok {
		return 0, 0, false
	}
	from, err1 := strconv.ParseUint(a, 16, 64)
	to, err2 := strconv.ParseUint(b, 16, 64)
	return from, to, err1 == nil && err2 == nil
}
