package main

import (
	"slices"
	"strings"
	"testing"
)

func TestQemuArgs(t *testing.T) {
	args := func(o options, host int, kvm bool) string {
		return strings.Join(qemuArgs(o, host, "/k", kvm), " ")
	}
	one := options{hosts: 1, mem: 512, cpus: 2}
	for _, c := range []struct {
		name      string
		got       string
		has, lack []string
	}{
		{"emulated", args(one, 1, false),
			[]string{"tcg,thread=multi", "-m 512", "-smp 2", "-kernel /k", "path=/,security_model=none,readonly=on", " quiet", "tsc=reliable"},
			[]string{"kvm", "netdev", "mount_tag=out", "icount"}},
		{"kvm", args(one, 1, true), []string{"-accel kvm", "-cpu host"}, []string{"tcg", "tsc="}},
		{"icount", args(options{hosts: 1, icount: true, cpus: 1}, 1, true),
			[]string{"tcg,thread=single", "-icount shift=2", "-smp 1"}, []string{"kvm"}},
		{"two hosts", args(options{hosts: 2}, 2, false),
			[]string{"id=rail0,fd=5", "id=rail1,fd=6", "mac=52:54:00:00:00:02", "mac=52:54:00:00:01:02"}, nil},
		{"out", args(options{hosts: 1, out: "/a,b"}, 1, false), []string{"path=/a,,b", "mount_tag=out"}, nil},
		{"verbose", args(options{hosts: 1, verbose: true}, 1, false), []string{"loglevel=7"}, []string{"quiet"}},
	} {
		for _, s := range c.has {
			if !strings.Contains(c.got, s) {
				t.Errorf("%s: no %q in %s", c.name, s, c.got)
			}
		}
		for _, s := range c.lack {
			if strings.Contains(c.got, s) {
				t.Errorf("%s: %q in %s", c.name, s, c.got)
			}
		}
	}
	// What a panic does to the guest must end QEMU.
	if !slices.Contains(qemuArgs(one, 1, "/k", false), "-no-reboot") {
		t.Error("no -no-reboot")
	}
}

func TestHardwareKVM(t *testing.T) {
	for cpuinfo, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu vmx smx\nvmx flags\t: vnmi\n": true,
		"flags\t\t: fpu svm\n": true,
		"flags\t\t: fpu hypervisor lahf_lm vmmcall\nvmx flags\t: vmx\n": false,
		"": false,
	} {
		if got := hardwareKVM(cpuinfo); got != want {
			t.Errorf("%q: %v", cpuinfo, got)
		}
	}
}
