package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// File descriptors that QEMU inherits, after the standard three.
const (
	linkFD   = 3 // the virtio-serial link to the agent
	initrdFD = 4
	railFD   = 5 // rails, one each, to the other host
)

// rails is the number of networks that two hosts share.
const rails = 2

// qemuArgs is the command line of one host. Host number and rail make up the
// hardware addresses, by which the topologies know the devices.
func qemuArgs(o options, host int, image string, kvm bool) []string {
	args := []string{
		"-no-user-config", "-nodefaults", "-display", "none", "-monitor", "none",
		"-no-reboot", // a panic restarts, so it ends QEMU
		"-name", fmt.Sprintf("railbind-host%d", host),
		"-m", strconv.Itoa(o.mem), "-smp", strconv.Itoa(o.cpus),
	}
	cmdline := "console=ttyS0 panic=-1 oops=panic no_timer_check net.ifnames=0 random.trust_cpu=on" +
		" mitigations=off" // only saves time: nothing in a guest is secret
	switch {
	case o.icount:
		args = append(args, "-cpu", "max", "-accel", "tcg,thread=single",
			"-icount", "shift=2,sleep=off,align=off")
	case kvm:
		args = append(args, "-cpu", "host", "-accel", "kvm")
	default:
		args = append(args, "-cpu", "max", "-accel", "tcg,thread=multi")
		// Emulated counters run together, but the kernel would not believe it,
		// and read a clock three times as slow.
		cmdline += " tsc=reliable"
	}
	if o.verbose {
		cmdline += " loglevel=7"
	} else {
		cmdline += " quiet"
	}
	args = append(args,
		"-kernel", image,
		"-initrd", fmt.Sprintf("/proc/self/fd/%d", initrdFD),
		"-append", cmdline,
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", fmt.Sprintf("socket,id=link,fd=%d", linkFD),
		"-device", "virtserialport,chardev=link,name="+linkName,
		"-device", "virtio-rng-pci",
		"-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
	)
	if o.out != "" {
		args = append(args,
			"-fsdev", "local,id=out,security_model=none,multidevs=remap,path="+escapeComma(o.out),
			"-device", "virtio-9p-pci,fsdev=out,mount_tag=out")
	}
	if o.hosts == 2 {
		for r := range rails {
			args = append(args,
				"-netdev", fmt.Sprintf("socket,id=rail%d,fd=%d", r, railFD+r),
				"-device", fmt.Sprintf("virtio-net-pci,netdev=rail%d,romfile=,mac=52:54:00:00:0%d:0%d", r, r, host))
		}
	}
	return args
}

// escapeComma writes a value as QEMU's option lists want it.
func escapeComma(s string) string {
	var out []rune
	for _, r := range s {
		if r == ',' {
			out = append(out, r)
		}
		out = append(out, r)
	}
	return string(out)
}

// hardwareKVM tells from /proc/cpuinfo whether the processor runs virtual machines.
func hardwareKVM(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return slices.ContainsFunc(strings.Fields(flags), func(f string) bool { return f == "vmx" || f == "svm" })
		}
	}
	return false
}
