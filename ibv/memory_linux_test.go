package ibv

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestBuffer(t *testing.T) {
	b, err := NewBuffer(10000, BufferConfig{})
	require.NoError(t, err)
	require.Len(t, b.Bytes(), 10000)
	b.Bytes()[9999] = 1
	require.False(t, isHuge(b.Bytes()))
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	for _, size := range []int{0, -1} {
		_, err = NewBuffer(size, BufferConfig{})
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// TestHugeBuffer: huge pages or an error that tells how to get some.
func TestHugeBuffer(t *testing.T) {
	b, err := NewBuffer(1, BufferConfig{HugePages: true})
	if err != nil {
		if errors.Is(err, syscall.ENOMEM) {
			require.ErrorContains(t, err, "vm.nr_hugepages")
		} else {
			require.ErrorIs(t, err, errors.ErrUnsupported)
		}
		return
	}
	require.GreaterOrEqual(t, len(b.Bytes()), 1<<20)
	b.Bytes()[0] = 1
	require.True(t, isHuge(b.Bytes()))
	require.NoError(t, b.Close())
}

func refused(size int, cfg BufferConfig) error {
	_, err := NewBuffer(size, cfg)
	return err
}

// TestHugePageSize: a size that the system does not have is unsupported.
func TestHugePageSize(t *testing.T) {
	for _, size := range []int{-4096, 3 << 20} {
		require.ErrorIs(t, refused(1, BufferConfig{HugePageSize: size}), ErrInvalid)
	}
	require.ErrorIs(t, refused(1, BufferConfig{HugePageSize: 1 << 45}), errors.ErrUnsupported)
	require.ErrorIs(t, refused(math.MaxInt, BufferConfig{HugePageSize: 1 << 21}), ErrInvalid)
}

// TestBufferNodes: the pages come from the node that was asked for; one that is
// not there is an error.
func TestBufferNodes(t *testing.T) {
	b, err := NewBuffer(1<<16, BufferConfig{Nodes: []int{0}})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("mbind is forbidden here")
	}
	require.NoError(t, err)
	defer b.Close()
	b.Bytes()[5000] = 1
	node := int32(-1)
	const flagNode, flagAddr = 1, 2
	_, _, e := syscall.Syscall6(syscall.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&node)), 0, 0,
		uintptr(unsafe.Pointer(&b.Bytes()[5000])), flagNode|flagAddr, 0)
	if e == 0 { // a kernel with NUMA
		require.Zero(t, node)
		require.Error(t, refused(1, BufferConfig{Nodes: []int{1000}}))
	}
	require.ErrorIs(t, refused(1, BufferConfig{Nodes: []int{-1}}), syscall.EINVAL)
	many, err := NewBuffer(1<<16, BufferConfig{Nodes: []int{0, 1}})
	if err == nil {
		require.NoError(t, many.Close())
	}
}

func TestMapping(t *testing.T) {
	from, to, ok := mapping("7f0012345000-7f0012346000 rw-p 00000000 00:00 0 ")
	require.True(t, ok)
	require.Equal(t, uint64(0x7f0012345000), from)
	require.Equal(t, uint64(0x7f0012346000), to)
	for _, line := range []string{"Size:                  4 kB", "VmFlags: rd wr mr", "", "x-y z"} {
		_, _, ok := mapping(line)
		require.False(t, ok, line)
	}
}

// TestMemlock reads this process's own limit.
func TestMemlock(t *testing.T) {
	limit, pinned := memlock()
	require.GreaterOrEqual(t, limit, int64(-1))
	require.GreaterOrEqual(t, pinned, int64(0))
}
