package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
	"github.com/railbind/railbind/ibv"
)

func doctor(t *testing.T, args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	status, out, _ := doctor(t, "-h")
	require.Equal(t, statusReady, status)
	require.Equal(t, usage, out)
	for _, args := range [][]string{{"-x"}, {"rxe0"}} {
		status, _, errs := doctor(t, args...)
		require.Equal(t, 2, status)
		require.Contains(t, errs, "rb-doctor -h explains")
	}
	status, out, _ = doctor(t, "-schema")
	require.Equal(t, statusReady, status)
	require.Equal(t, schema, out)
}

// TestJSON holds what -json prints to its schema, on any machine.
func TestJSON(t *testing.T) {
	var s struct {
		Properties struct {
			Findings struct {
				Items struct {
					Properties map[string]struct{ Enum []string }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(schema), &s))
	known := s.Properties.Findings.Items.Properties
	_, out, _ := doctor(t, "-json")
	var r struct {
		Ready    *bool
		Findings []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.NotNil(t, r.Ready)
	require.NotEmpty(t, r.Findings)
	for _, f := range r.Findings {
		for key, v := range f {
			require.Contains(t, known, key)
			if enum := known[key].Enum; enum != nil {
				require.Contains(t, enum, v)
			}
		}
	}
}

// TestBareDoctor is for any machine without RDMA.
func TestBareDoctor(t *testing.T) {
	guest.NeedNoRDMA(t)
	status, out, errs := doctor(t)
	require.Equal(t, statusNotReady, status)
	require.Empty(t, errs)
	require.Regexp(t, `(?m)^error +devices +kernel +no RDMA here`, out)
	require.Regexp(t, `(?m)^ +do +modprobe -a rdma_rxe ib_uverbs rdma_ucm$`, out)
	require.Regexp(t, `is not ready\n$`, out)
}

// TestPairDoctor: ready, and not any more for an ordinary user with little memory
// to lock.
func TestPairDoctor(t *testing.T) {
	guest.NeedTopo(t, "pair")
	status, out, _ := doctor(t)
	require.Equal(t, statusReady, status, out)
	require.Regexp(t, `(?m)^ok +device +rxe0 +can be opened`, out)
	require.Regexp(t, `is ready\n$`, out)
	_, quiet, _ := doctor(t, "-q")
	require.NotContains(t, quiet, "can be opened")
	require.Contains(t, quiet, "ip link set b0 mtu 4200")

	cmd := exec.Command("sh", "-c", "ulimit -l 64; exec rb-doctor -json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	b, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, statusNotReady, exit.ExitCode())
	var r report
	require.NoError(t, json.Unmarshal(b, &r))
	require.False(t, r.Ready)
	for _, f := range r.Findings {
		require.Equal(t, f.Check == "memlock", f.Severity == ibv.SeverityError, "%v", f)
		if f.Check == "memlock" {
			mend := exec.Command("sh", "-c", "ulimit -l 64; "+strings.Join(f.Do, "; ")+"; exec rb-doctor")
			mend.Stderr = os.Stderr
			require.NoError(t, mend.Run())
		}
	}
}
