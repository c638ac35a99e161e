package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/cm/policy"
)

// How long -watch waits before it looks.
const (
	// Changes come in bursts, such as a script's.
	burst = 50 * time.Millisecond
	// A GID table follows its addresses in silence: look once more.
	settle = time.Second
	// Nobody tells when a name changes.
	names = 30 * time.Second
)

// watch reports again and again, until ctx ends.
func watch(ctx context.Context, o options, stdout, stderr io.Writer) int {
	h, err := cm.OpenHost()
	if err != nil {
		fmt.Fprintf(stderr, "rb-explain: %v\n", err)
		return statusUnknown
	}
	defer h.Close()
	changes, err := h.Watch(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "rb-explain: %v\n", err)
		return statusUnknown
	}
	var last edition
	for again := settle; ; again = pause(ctx, o, changes, again) {
		if again < 0 {
			if ctx.Err() == nil {
				fmt.Fprintln(stderr, "rb-explain: the kernel tells of no more changes")
				return statusUnknown
			}
			return last.status()
		}
		r := explain(ctx, o)
		if ctx.Err() != nil && last.known != nil {
			return last.status() // it may be cut short
		}
		if last, err = last.next(r, stdout); err != nil {
			fmt.Fprintf(stderr, "rb-explain: %v\n", err)
			return statusUnknown
		}
	}
}

// pause waits until it is time to look again, and returns after how long to look
// once more without a change: 0 for no need, less than 0 at the end.
func pause(ctx context.Context, o options, changes <-chan struct{}, again time.Duration) time.Duration {
	if again == 0 && o.name != "" {
		again = names
	}
	var timer <-chan time.Time
	if again > 0 {
		timer = time.After(again)
	}
	select {
	case _, ok := <-changes:
		if !ok {
			return -1
		}
		select {
		case <-time.After(burst):
		case <-ctx.Done():
		}
		return settle
	case <-timer:
		return 0
	case <-ctx.Done():
		return -1
	}
}

// edition is a report that was printed.
type edition struct {
	report
	known object
}

// next prints the report if it says anything new.
func (e edition) next(r report, stdout io.Writer) (edition, error) {
	known, err := r.substance()
	if err != nil {
		return e, err
	}
	changed := []string{}
	for key := range known {
		if e.known != nil && !reflect.DeepEqual(known[key], e.known[key]) {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	if e.known != nil && len(changed) == 0 {
		return e, nil
	}
	next := edition{r, known}
	if r.json {
		err = r.printJSON(stdout, changed)
	} else {
		_, err = io.WriteString(stdout, next.text(e))
	}
	if err == nil && r.svg != "" {
		err = replaceFile(r.svg, r.picture())
	}
	return next, err
}

// text is the report under its time, with what was different in the one before.
func (e edition) text(before edition) string {
	was, gap := map[string]string{}, ""
	if before.known != nil {
		gap = "\n"
		for _, l := range before.rows() {
			if label(l.key) != "because" && label(l.key) != "to do" { // follow from the others
				was[l.key] = l.value
			}
		}
	}
	f := e.findings[e.taken]
	verdict := f.decision.Verdict
	if f.unknown != nil {
		verdict = policy.Undecided
	}
	return fmt.Sprintf("%s== %s %v\n", gap, e.at.Format("2006-01-02 15:04:05.000"), verdict) + layOut(e.rows(), was)
}

// substance is the report's object without what differs each time.
func (r report) substance() (object, error) {
	o, err := r.object()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	clear(o)
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	strip := func(m map[string]any) {
		delete(m, "lookups")
		if resolved, ok := m["resolved"].(map[string]any); ok {
			if kernel, ok := resolved["kernel"].(map[string]any); ok {
				delete(kernel, "local") // its port is any free one
			}
		}
	}
	strip(o)
	for _, other := range o["alternatives"].([]any) {
		strip(other.(map[string]any))
	}
	return o, nil
}

// replaceFile writes a file that nobody sees half.
func replaceFile(path, content string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return os.WriteFile(path, []byte(content), 0) // a pipe or a device stays what it is
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rb-explain-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
