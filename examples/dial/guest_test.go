package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

// asProgram makes this test binary behave as the program.
const asProgram = "DIAL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The program as it stands, on host 1 of the topology it was written for; host 2
// runs serve.
func TestRailsDial(t *testing.T) {
	guest.NeedTopo(t, "rails")
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "on rxe1 via rail1\nhello\n", string(out))
}
