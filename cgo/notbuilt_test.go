package cgo

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that was built without cgo says that, in all that it calls, and blames
// nothing on this machine.
func TestNotBuilt(t *testing.T) {
	const program = `package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

func main() {
	_, listen := cm.Listen(netip.MustParseAddrPort("0.0.0.0:7471"), cm.ListenConfig{})
	_, dial := (&cm.Dialer{}).Dial(context.Background(), "10.1.0.1:7471")
	_, devices := ibv.Devices()
	_, open := ibv.Open("rxe0")
	for _, err := range []error{listen, dial, devices, open} {
		fmt.Println(errors.Is(err, errors.ErrUnsupported), err)
	}
	fmt.Println(ibv.Diagnose()[0])
}
`
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	cmd := exec.Command("go", "run", file)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	const why = "this program was built without cgo: build it with CGO_ENABLED=1, gcc, pkg-config, libibverbs-dev and librdmacm-dev\n"
	require.Equal(t, "true cm: listen 0.0.0.0:7471: cm: event channel: no RDMA here: rdma_create_event_channel: "+why+
		"true cm: dial -> 10.1.0.1:7471: cm: event channel: no RDMA here: rdma_create_event_channel: "+why+
		"true ibv: list devices: ibv_get_device_list: "+why+
		"true ibv: open device on rxe0: ibv_open_device: "+why+
		"error: system of this program: "+why, string(out))
}
