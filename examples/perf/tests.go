package main

import (
	"fmt"
	"slices"
	"strings"
)

// op is how a message travels.
type op int

const (
	opSend op = iota + 1
	opWrite
	opRead
	opAtomic
)

// kind is what is counted.
type kind int

const (
	pingPong kind = iota // a message there and back
	oneSided             // one request until it is done
	stream               // many under way
	connects             // connections
)

// test is one of what rb-perf can measure, with its defaults.
type test struct {
	kind
	op
	size, iters, depth, batch int
	wide                      bool // takes a depth
}

// anyTest is what a server may be told instead.
const anyTest = "any"

var tests = map[string]*test{
	"send-lat":   {pingPong, opSend, 2, 1000, 1, 1, false},
	"write-lat":  {pingPong, opWrite, 2, 1000, 1, 1, false},
	"read-lat":   {oneSided, opRead, 2, 1000, 1, 1, false},
	"atomic-lat": {oneSided, opAtomic, 8, 1000, 1, 1, false},
	"send-bw":    {stream, opSend, 65536, 5000, 128, 16, true},
	"write-bw":   {stream, opWrite, 65536, 5000, 128, 16, true},
	"read-bw":    {stream, opRead, 65536, 5000, 128, 16, true},
	"rate":       {stream, opWrite, 64, 5000, 128, 32, true},
	"connect":    {connects, 0, 0, 100, 1, 1, false},
}

func testNames() []string {
	var names []string
	for n := range tests {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func unknownTest(name string) error {
	return fmt.Errorf("there is no test %q: %s", name, strings.Join(testNames(), ", "))
}
