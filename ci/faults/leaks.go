//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Holdings are what a process holds: its RDMA objects by kind, as the kernel
// counts them, its file descriptors and its goroutines. The objects are those of
// all processes of the host, where it is the only one with RDMA: the kernel names
// the thread that made an object, and nobody once that has ended.
type Holdings map[string]int

func holdingsOf(pid int) (Holdings, error) {
	h := Holdings{}
	for _, object := range []string{"cm_id", "qp", "cq", "pd", "mr"} {
		out, err := exec.Command("rdma", "-j", "resource", "show", object).Output()
		if err != nil {
			return nil, fmt.Errorf("rdma resource show %s: %w", object, err)
		}
		if len(strings.TrimSpace(string(out))) == 0 {
			continue
		}
		var list []struct {
			Comm string `json:"comm"`
		}
		if err := json.Unmarshal(out, &list); err != nil {
			return nil, fmt.Errorf("rdma resource show %s: %w", object, err)
		}
		for _, o := range list {
			if !strings.HasPrefix(o.Comm, "[") { // a module of the kernel
				h[object]++
			}
		}
	}
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if target, err := os.Readlink(dir + fd.Name()); err == nil { // not closed meanwhile
			name, _, _ := strings.Cut(target, ":[") // without an inode's number
			h["fd "+name]++
		}
	}
	if pid == os.Getpid() {
		h["goroutine"] = runtime.NumGoroutine()
	}
	return h, nil
}

// steady counts until two counts are the same: the kernel's list of its objects
// can leave out some while others come and go. (Once it left out all.)
func steady(count func() (Holdings, error)) (now Holdings, err error) {
	for range 100 {
		before := now
		if now, err = count(); err != nil || maps.Equal(before, now) {
			return now, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("what is held does not come to rest: %v", now)
}

// over says what now has more of than before.
func (before Holdings) over(now Holdings) string {
	var more []string
	for what, n := range now {
		if n > before[what] {
			more = append(more, fmt.Sprintf("%s %d, was %d", what, n, before[what]))
		}
	}
	return strings.Join(more, "; ")
}

// awaitNoMore waits until nothing is left of what came after before: some ends
// are left to the background.
func (before Holdings) awaitNoMore(ctx context.Context, limit time.Duration, now func() (Holdings, error)) error {
	end := time.Now().Add(limit)
	for {
		h, err := now()
		if err != nil {
			return err
		}
		more := before.over(h)
		if more == "" {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("LEAK: %s", more)
		}
		pause(ctx, 200*time.Millisecond)
	}
}
