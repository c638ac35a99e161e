package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFunctions(t *testing.T) {
	got := functions(`
#define ibv_macro(a) \
	other(a);
#ifdef __cplusplus
extern "C" {
#endif
/* int ibv_comment(void); */
struct ibv_ops { int (*poll)(struct ibv_cq *cq); };
int __attribute_const ibv_rate_to_mult(enum ibv_rate rate);
int ibv_attr(void) __attribute__((deprecated("for ibv_b")));
typedef int (*ibv_callback)(int);
int _ibv_hidden(void);
static inline struct ibv_mr *
rdma_reg_msgs(struct rdma_cm_id *id,
	      void *addr)
{
	return ibv_inner(id);
}
#ifdef __cplusplus
}
#endif
`)
	require.Equal(t, map[string]string{
		"ibv_rate_to_mult": "int ibv_rate_to_mult(enum ibv_rate rate)",
		"ibv_attr":         "int ibv_attr(void)",
		"rdma_reg_msgs":    "static inline struct ibv_mr * rdma_reg_msgs(struct rdma_cm_id *id, void *addr)",
	}, got)
}

func TestJudge(t *testing.T) {
	api := map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": ""}
	docs := map[string][]string{"a": {"ibv.A"}, "b": {"ibv.B"}, "c": {"ibv.C"}, "d": {"ibv.D"}, "e": {"ibv.E"}}
	tests := map[string]bool{"TestPairA": true, "TestB": true}
	r := judge(api, docs, tests, map[string]entry{
		"a":     {guest, "TestPairA", "1"},
		"b":     {fake, "TestPairA", "2"}, // a test in the guest
		"c":     {compiled, "no driver has it", "3"},
		"d":     {left, "not wanted", "4"},  // and yet wrapped
		"f":     {guest, "TestPairF", "5"},  // neither wrapped nor tested
		"newer": {pure, "TestB", "6"},       // of a newer rdma-core
		"other": {"believed", "by me", "7"}, // no class
	})
	require.Equal(t, map[class][]string{guest: {"a", "f"}, fake: {"b"}, compiled: {"c"}, left: {"d"},
		unknown: {"e", "g"}}, sorted(r))
	require.Equal(t, []string{
		"2: b: by its name, TestPairA is no test of class fake",
		"4: d is left out, but ibv.D implements it",
		"5: f: there is no test TestPairF",
		"5: no doc implements f",
		`7: other: no class "believed"`,
	}, r.wrong)
	require.InDelta(t, 100*4./7, r.covered(), 0.01)
}

func sorted(r *report) map[class][]string {
	r.print(io.Discard, true) // sorts
	return r.by
}

// TestDocs reads this repository.
func TestDocs(t *testing.T) {
	docs, err := readDocs("../..", "cgo", "ibv", "cm")
	require.NoError(t, err)
	require.Contains(t, docs["ibv_open_device"], "ibv.Open")
	require.NotEmpty(t, docs["ibv_ack_async_event"], "the line after Implements:")
	tests, err := readTests("../..")
	require.NoError(t, err)
	require.True(t, tests["TestPairDevices"])
	_, err = readTable("functions")
	require.NoError(t, err)
}
