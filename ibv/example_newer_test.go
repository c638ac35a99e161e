package ibv_test

import (
	"errors"

	"github.com/railbind/railbind/ibv"
)

// How many WRITEs of the peer have arrived, which makes no completion here.
func ExampleCompCounter() {
	count := func(c *ibv.Context, qp *ibv.QP) (*ibv.CompCounter, error) {
		n, err := c.CreateCompCounter(ibv.CountRequests)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil // rdma-core before 65, or the device does not count
		} else if err != nil {
			return nil, err
		}
		return n, qp.AttachCompCounter(n, ibv.CompRemoteWrite) // in RESET or INIT
	}
	arrived := func(n *ibv.CompCounter) (uint64, error) {
		ok, _, err := n.Read()
		return ok, err
	}
	_, _ = count, arrived
}

// Memory whose data the device puts near one CPU.
func ExampleDMAHandle() {
	register := func(c *ibv.Context, pd *ibv.PD, b *ibv.Buffer, cpu int) (*ibv.MR, error) {
		near, err := c.AllocDMAHandle(ibv.DMAHandleConfig{CPU: cpu, SetCPU: true})
		if errors.Is(err, errors.ErrUnsupported) {
			return pd.RegisterBuffer(b, ibv.RemoteWrite) // no such device, or rdma-core before 59
		} else if err != nil {
			return nil, err
		}
		return pd.RegisterBufferWith(b, near, ibv.RemoteWrite)
	}
	_ = register
}
