//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "ci/guest: runs on Linux only, since QEMU shares the machine's own programs with the guest; use a Linux machine or VM")
	os.Exit(125)
}
