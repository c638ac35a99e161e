package ibv

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// mapMemory maps zeroed memory that the garbage collector knows nothing of.
func mapMemory(size int, cfg BufferConfig) ([]byte, error) {
	const op = "map memory"
	if size <= 0 {
		return nil, invalid(op, "", ErrInvalid, "size %d", size)
	}
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANON
	page := cfg.HugePageSize
	if page < 0 || page&(page-1) != 0 {
		return nil, invalid(op, "", ErrInvalid, "huge pages of %d bytes", page)
	}
	if page != 0 {
		const sizeShift = 26 // MAP_HUGE_SHIFT
		flags |= syscall.MAP_HUGETLB | (bits.Len(uint(page))-1)<<sizeShift
	} else if cfg.HugePages {
		if page = hugePageSize(); page == 0 {
			return nil, &Error{Op: op, Err: syscall.EOPNOTSUPP, Hint: "this kernel has no huge pages"}
		}
		flags |= syscall.MAP_HUGETLB
	}
	if page != 0 {
		if size > math.MaxInt-page {
			return nil, invalid(op, "", ErrInvalid, "size %d", size)
		}
		size = (size + page - 1) / page * page
	}
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		return nil, mapError(op, size, page, err)
	}
	if err := preferNodes(mem, cfg.Nodes); err != nil {
		return nil, errors.Join(&Error{Op: op, Err: err, Hint: fmt.Sprintf("NUMA nodes %v", cfg.Nodes)}, unmapMemory(mem))
	}
	return mem, nil
}

func mapError(op string, size, page int, err error) error {
	e := &Error{Op: op, Err: err}
	switch {
	case page != 0 && errors.Is(err, syscall.ENOMEM):
		e.Hint = fmt.Sprintf("not enough huge pages for %d bytes: reserve some with sysctl vm.nr_hugepages", size)
	case page != 0 && errors.Is(err, syscall.EINVAL):
		e.Kind, e.Hint = errors.ErrUnsupported, fmt.Sprintf("this system has no huge pages of %d bytes", page)
	}
	return e
}

// preferNodes asks for the pages of mem from some NUMA nodes.
func preferNodes(mem []byte, nodes []int) error {
	if len(nodes) == 0 {
		return nil
	}
	var mask [16]uint64
	for _, n := range nodes {
		if n < 0 || n >= 64*len(mask) {
			return syscall.EINVAL
		}
		mask[n/64] |= 1 << (n % 64)
	}
	mode := uintptr(1) // MPOL_PREFERRED
	if len(nodes) > 1 {
		mode = 5 // MPOL_PREFERRED_MANY
	}
	_, _, e := syscall.Syscall6(syscall.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), mode,
		uintptr(unsafe.Pointer(&mask)), uintptr(64*len(mask)+1), 0)
	if e == 0 || e == syscall.ENOSYS { // no NUMA: all memory is as near
		return nil
	}
	return e
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
