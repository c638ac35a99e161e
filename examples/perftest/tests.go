package main

import (
	"strings"

	"github.com/railbind/railbind/ibv"
)

// test is what one of perftest's programs does.
type test struct {
	name          string
	op            ibv.Opcode
	stream        bool // many messages under way
	size, n, most int  // the defaults
}

var ops = map[string]ibv.Opcode{"send": ibv.OpSend, "write": ibv.OpWrite, "read": ibv.OpRead, "atomic": ibv.OpFetchAdd}

func testOf(name string) (t test, ok bool) {
	op, kind, _ := strings.Cut(name, "-")
	t = test{name: name, op: ops[op], stream: kind == "bw", size: 2, n: 1000, most: 1}
	if _, ok = ops[op]; !ok || kind != "bw" && kind != "lat" {
		return test{}, false
	}
	if t.stream {
		t.size, t.most = 65536, 128
	}
	if t.stream && t.op == ibv.OpWrite {
		t.n = 5000
	}
	if t.atomic() {
		t.size = 8
	}
	return t, true
}

func (t *test) sends() bool  { return t.op == ibv.OpSend }
func (t *test) atomic() bool { return t.op == ibv.OpFetchAdd }

// fetches: what is asked for comes back.
func (t *test) fetches() bool { return t.op == ibv.OpRead || t.atomic() }

// rallies: both ends send, by turns.
func (t *test) rallies() bool { return !t.stream && !t.fetches() }

// The ends wait for each other by telling each other their keys again. How often,
// is the test's matter: before the queue pairs are there, and once they are connected.

func (t *test) before() int { return count(!t.stream && !t.sends()) }
func (t *test) ready() int  { return 2 + count(t.sends()) }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
