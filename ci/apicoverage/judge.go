package main

import (
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
)

// class is what shows that a function is covered, or why it is not.
type class string

const (
	guest    class = "guest"    // a test runs it on a kernel
	fake     class = "fake"     // a test runs it on the fake provider
	pure     class = "pure"     // it asks no device: a unit test runs it
	compiled class = "compiled" // no software driver has it
	left     class = "left"     // left out on purpose
	unknown  class = "unaccounted"
)

var classes = []class{guest, fake, pure, compiled, left, unknown}

// guestTest matches the name of a test that ci/guest-test runs on a kernel.
var guestTest = regexp.MustCompile(`^Test(Pair|Hosts|Shared|Exclusive|Field|Bare|None|Oracle|Rails|Siw)`)

// report is the state of each function.
type report struct {
	by    map[class][]string
	text  map[string]string
	total int
	wrong []string // entries that contradict the code
}

func judge(api map[string]string, docs map[string][]string, tests map[string]bool, table map[string]entry) *report {
	r := &report{by: map[class][]string{}, text: map[string]string{}, total: len(api)}
	for name := range api {
		e, declared := table[name]
		_, wrapped := docs[name]
		c := e.class
		switch {
		case !declared && !wrapped:
			c, e.text = unknown, "not wrapped"
		case !declared:
			c, e.text = unknown, "wrapped by "+docs[name][0]+", but functions/ does not say what shows it"
		case e.class == left && wrapped:
			r.wrongf("%s: %s is left out, but %s implements it", e.at, name, docs[name][0])
		case e.class != left && !wrapped:
			r.wrongf("%s: no doc implements %s", e.at, name)
		}
		r.by[c] = append(r.by[c], name)
		r.text[name] = e.text
	}
	for name, e := range table {
		// (A function of a newer rdma-core than the one installed is no mistake.)
		r.check(name, e, tests)
	}
	sort.Strings(r.wrong)
	return r
}

// check tells whether what an entry names is there.
func (r *report) check(name string, e entry, tests map[string]bool) {
	switch e.class {
	case guest, fake, pure:
		switch {
		case !tests[e.text]:
			r.wrongf("%s: %s: there is no test %s", e.at, name, e.text)
		case guestTest.MatchString(e.text) != (e.class == guest):
			r.wrongf("%s: %s: by its name, %s is no test of class %s", e.at, name, e.text, e.class)
		}
	case compiled, left:
	default:
		r.wrongf("%s: %s: no class %q", e.at, name, e.class)
	}
}

func (r *report) wrongf(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// covered is the percentage of functions that the library offers.
func (r *report) covered() float64 {
	return 100 * float64(r.total-len(r.by[left])-len(r.by[unknown])) / float64(r.total)
}

func (r *report) print(w io.Writer, verbose bool) {
	for _, c := range classes {
		names := r.by[c]
		sort.Strings(names)
		if !verbose && c != left && c != unknown && c != compiled {
			continue
		}
		for _, name := range names {
			fmt.Fprintf(w, "%-12s %-36s %s\n", c, name, r.text[name])
		}
	}
	fmt.Fprintf(w, "%d functions in %s:\n", r.total, strings.Join(headers, ", "))
	for _, line := range []struct {
		class class
		what  string
	}{
		{guest, "covered, run on a kernel in the guest"},
		{fake, "covered, run on the fake provider"},
		{pure, "covered, run in a unit test: they ask no device"},
		{compiled, "covered, compiled only: no software driver has them"},
		{left, "left out"},
		{unknown, "unaccounted for"},
	} {
		fmt.Fprintf(w, "  %4d  %s\n", len(r.by[line.class]), line.what)
	}
	fmt.Fprintf(w, "%.1f %% covered, %.1f %% accounted for\n", r.covered(),
		100*float64(r.total-len(r.by[unknown]))/float64(r.total))
	for _, s := range r.wrong {
		fmt.Fprintln(w, "wrong:", s)
	}
}
