//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
)

// asleep says where in the kernel threads wait that nothing can wake.
func asleep() string {
	var out strings.Builder
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, task := range tasks {
		status, _ := os.ReadFile(task + "/status")
		if !strings.Contains(string(status), "\nState:\tD") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(string(status), "Name:\t"), "\n")
		stack, _ := os.ReadFile(task + "/stack")
		out.WriteString("\n" + task + " " + name + " sleeps in the kernel:\n" + string(stack))
	}
	return out.String()
}
