package ibv

import "github.com/railbind/railbind/cgo"

// ForkStatus says whether registered memory survives a fork.
type ForkStatus uint32

// Fork support.
const (
	ForkDisabled ForkStatus = 0 // a fork takes registered memory away from the parent
	ForkEnabled  ForkStatus = 1 // libibverbs keeps registered memory from the child
	ForkUnneeded ForkStatus = 2 // the kernel copies it for the child
)

func (s ForkStatus) String() string {
	return name("ForkStatus", map[ForkStatus]string{ForkDisabled: "disabled", ForkEnabled: "enabled",
		ForkUnneeded: "not needed"}, s)
}

// ForkInit makes forks safe, for kernels before 5.12; call it before anything is
// registered. os/exec needs it too, although the child lives for moments only.
// Memory on huge pages then needs RDMAV_HUGEPAGES_SAFE=1 in the environment.
//
// Implements: int ibv_fork_init(void)
func ForkInit() error {
	if err := cgo.ForkInit(); err != nil {
		return &Error{Op: "initialize fork support", Err: err}
	}
	return nil
}

// ForkSupport tells what a fork does to registered memory.
//
// Implements: enum ibv_fork_status ibv_is_fork_initialized(void)
func ForkSupport() ForkStatus { return ForkStatus(cgo.ForkStatus()) }
