package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var testTopos = map[string]int{"pair": 1, "rails": 2, "none": 1}

func TestParseOptions(t *testing.T) {
	base := options{
		kernel: "6.1", hosts: 1, topo: "pair", transport: "rxe",
		timeout: 10 * time.Minute, mem: 2048, cpus: 2, command: []string{"true"},
	}
	with := func(change func(*options)) options {
		o := base
		change(&o)
		return o
	}
	for _, c := range []struct {
		args string
		want options
	}{
		{"-- true", base},
		{"true", base},
		{"-topo none -- true -v -x", with(func(o *options) { o.topo = "none"; o.command = []string{"true", "-v", "-x"} })},
		{"-topo rails -- true", with(func(o *options) { o.topo, o.hosts = "rails", 2 })},
		{"-hosts 2 -- true", with(func(o *options) { o.topo, o.hosts = "rails", 2 })},
		{"-peer x -mortal true", with(func(o *options) { o.topo, o.hosts, o.peer, o.mortal = "rails", 2, "x", true })},
		{"-peer x -ready y true", with(func(o *options) { o.topo, o.hosts, o.peer, o.ready = "rails", 2, "x", "y" })},
		{"-topo none -peer x true", with(func(o *options) { o.topo, o.hosts, o.peer = "none", 2, "x" })},
		{"-kernel 7.x -timeout 5s -mem 512 -v true", with(func(o *options) {
			o.kernel, o.timeout, o.mem, o.verbose = "7", 5*time.Second, 512, true
		})},
		{"-icount true", with(func(o *options) { o.icount, o.cpus = true, 1 })},
		{"-transport siw true", with(func(o *options) { o.transport = "siw" })},
		{"-transport siw -kernel 7 -rdma-core 65 true", with(func(o *options) { o.transport, o.kernel, o.rdmaCore = "siw", "7", "65" })},
		{"-shell", with(func(o *options) { o.shell, o.command = true, []string{"bash", "--norc"} })},
		{"-shell python3 -i", with(func(o *options) { o.shell, o.command = true, []string{"python3", "-i"} })},
	} {
		got, err := parseOptions(strings.Fields(c.args), testTopos)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", c.args, got, err, c.want)
		}
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "no COMMAND",
		"-topo pair":                     "no COMMAND",
		"-bogus true":                    "-bogus",
		"-hosts 3 true":                  "-hosts 3",
		"-hosts 1 -topo rails true":      "needs -hosts 2",
		"-topo x true":                   "none, pair, rails",
		"-hosts 1 -peer x true":          "-peer needs",
		"-ready x true":                  "give -peer too",
		"-mortal true":                   "give -peer too",
		"-kernel 5 true":                 "6.1, 6.12 and 7",
		"-transport ib true":             "rxe or siw",
		"-rdma-core 50 true":             "44, 56 and 65",
		"-timeout 0 true":                "-timeout 0s",
		"-timeout soon true":             "timeout",
		"-mem 1 true":                    "-mem 1",
		"-cpus -1 true":                  "-cpus -1",
		"-icount -cpus 2 true":           "exactly 1",
		"-out /nonexistent/folder -- ls": "no such folder",
	} {
		_, err := parseOptions(strings.Fields(args), testTopos)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", args, err, want)
		}
	}
	if _, err := parseOptions([]string{"-h"}, testTopos); !errors.Is(err, errHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestReadTopos(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"one": "#!/bin/sh\n# A topology.\n", "two": "#!/bin/sh\n# hosts: 2\n", "lib.sh": "", "one.orig": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readTopos(dir)
	if want := map[string]int{"one": 1, "two": 2}; err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
}

// The scripts that the repository has are those that its documents name.
func TestTopologies(t *testing.T) {
	got, err := readTopos("../topo")
	want := map[string]int{"pair": 1, "rails": 2, "field": 1, "none": 1, "bare": 1, "oracle": 1, "hosts": 1, "shared": 1, "exclusive": 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
}

func TestGuestEnv(t *testing.T) {
	got := guestEnv([]string{
		"RAILBIND_X=1", "GODEBUG=a=b", "GOOGLE_KEY=secret", "ASAN_OPTIONS=x", "TERM=vt100", "HOME=/x", "PATH=/x", "AWS_KEY=secret",
	})
	want := []string{"RAILBIND_X=1", "GODEBUG=a=b", "ASAN_OPTIONS=x", "TERM=vt100"}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q\nwant %q", got, want)
	}
}
