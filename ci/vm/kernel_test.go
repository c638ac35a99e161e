//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestParseDepends(t *testing.T) {
	control := "Package: linux-image-amd64\nDepends: linux-base (>= 4), linux-image-6.1.0-57-amd64 (= 6.1.192-3), other (= 1)\nSize: 1\n"
	name, version, err := parseDepends(control, "linux-image-")
	if name != "linux-image-6.1.0-57-amd64" || version != "6.1.192-3" || err != nil {
		t.Fatal(name, version, err)
	}
	if name, _, err := parseDepends(control, "linux-base"); err == nil {
		t.Fatalf("%s has no exact version", name)
	}
}

func TestSourcesList(t *testing.T) {
	targets := "mirror:/debian/ contrib\nmirror:/debian/ main\nmirror:/other/ main\nmirror:/debian-security/ main\n"
	for _, c := range []struct{ targets, suite, want string }{
		{targets, "trixie", "deb [o] mirror:/debian/ trixie main\ndeb [o] mirror:/debian-security/ trixie-security main\n"},
		{targets, "sid", "deb [o] mirror:/debian/ sid main\n"},
		{"own:/debian main\n", "bookworm", "deb [o] own:/debian bookworm main\n"},
	} {
		got, err := sourcesList(c.targets, c.suite, "[o] ")
		if got != c.want || err != nil {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", c.suite, got, err, c.want)
		}
	}
	if _, err := sourcesList("mirror:/debian-security/ main\n", "sid", ""); err == nil {
		t.Error("no archive, no error")
	}
}

func TestKernelSeries(t *testing.T) {
	for release, want := range map[string]string{"6.1.0-57-amd64": "6.1", "6.12.118+deb13-amd64": "6.12", "7": "7"} {
		if got := kernelSeries(release); got != want {
			t.Errorf("%s: %s", release, got)
		}
	}
}

func TestReadKernel(t *testing.T) {
	dir := t.TempDir()
	if _, err := readKernel(dir); err == nil {
		t.Fatal("an unfinished folder was taken")
	}
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(`{"Release":"6.1.0-57-amd64","Version":"6.1.192-3"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := readKernel(dir)
	if err != nil || k.moduleDir() != dir+"/modules/6.1.0-57-amd64" || k.image() != dir+"/kernel" {
		t.Fatalf("%+v, %v", k, err)
	}
}
