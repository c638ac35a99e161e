package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/railbind/railbind/examples/internal/guest"
)

func TestNoRDMA(t *testing.T)     { testNoRDMA(t) }
func TestBareNoRDMA(t *testing.T) { testNoRDMA(t) }
func TestNoneNoRDMA(t *testing.T) { testNoRDMA(t) }

// Without RDMA nothing is decided, whatever is asked, and the routes are still
// told.
func testNoRDMA(t *testing.T) {
	guest.NeedNoRDMA(t)
	for _, args := range []string{
		"127.0.0.1:7471", "-bind 127.0.0.1 127.0.0.1", "-bind rxe0 127.0.0.1", "-src 127.0.0.1 -policy pin 127.0.0.1",
		"-resolve ::1", "-bind fd00::1 127.0.0.1",
	} {
		t.Run(args, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, statusUnknown, run(t.Context(), strings.Fields(args), &out, &errs))
			require.Regexp(t, `(?m)^verdict +undecided$`, out.String())
			require.Regexp(t, `(?m)^because +.*RDMA`, out.String())
			require.Regexp(t, `(?m)^to do +.*modprobe`, out.String())
			if strings.HasSuffix(strings.Split(args, ":")[0], "127.0.0.1") { // ::1 needs IPv6 on this machine
				require.Regexp(t, `(?m)^host route .*127.0.0.1.*local, dev lo`, out.String())
			}

			out.Reset()
			require.Equal(t, statusUnknown, run(t.Context(), append([]string{"-json"}, strings.Fields(args)...), &out, &errs))
			m := parseJSON(t, out.String())
			require.Equal(t, "undecided", m["verdict"])
			require.Equal(t, "ErrNoRDMA", m["error"])
			require.Equal(t, "ENODEV", m["errno"])
			require.Nil(t, m["resolved"])
			require.Empty(t, errs.String())
		})
	}
}

// parseJSON reads the program's output, which must be as the schema says.
func parseJSON(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(s), &m))
	require.NoError(t, contract().Validate(any(m)), s)
	return m
}

// contract is the compiled schema.
var contract = sync.OnceValue(func() *jsonschema.Schema {
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", raw); err != nil {
		panic(err)
	}
	return c.MustCompile("schema.json")
})

// TestNoneRemedy: where the modules are there, the printed command makes a
// device, and with it a verdict. The program runs on its own: the kernel removes
// no rxe device that a process has open.
func TestNoneRemedy(t *testing.T) {
	guest.NeedTopo(t, "none")
	ip(t, "link add v0 type veth peer name v1")
	t.Cleanup(func() { ip(t, "link del v0") })
	ip(t, "link set v1 up")
	ip(t, "link set v0 up")
	ip(t, "address add 10.9.0.1/24 dev v0")
	explained := func() map[string]any {
		out, _ := exec.Command("rb-explain", "-json", "-bind", "10.9.0.1", "10.9.0.2").Output()
		return parseJSON(t, string(out))
	}
	m := explained()
	require.Equal(t, "ErrNoRDMA", m["error"])
	_, command, found := strings.Cut(m["remedy"].(string), "without hardware: ")
	require.True(t, found)
	require.Contains(t, command, "netdev v0")
	shell(t, command)
	t.Cleanup(func() { shell(t, "rdma link delete rxe0") })
	require.Eventually(t, func() bool { return explained()["verdict"] == "accepted" }, time.Minute, 50*time.Millisecond)
}
