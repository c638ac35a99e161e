// Command apicoverage counts how much of the C API the library covers: it
// compares the functions of rdma-core's public headers with the "Implements:"
// lines in the docs of packages cgo, ibv and cm, and with the files in
// functions/, which say what shows each of them. ci/README.md tells the rules.
//
//	go run ./ci/apicoverage [-v] [-include DIR] [-unaccounted N]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	include := flag.String("include", "/usr/include", "where infiniband/verbs.h and rdma/rdma_cma.h are")
	root := flag.String("root", ".", "the repository")
	unaccounted := flag.Int("unaccounted", 0, "functions that may be unaccounted for")
	covered := flag.Float64("covered", 0, "percent that has to be covered")
	verbose := flag.Bool("v", false, "list every function")
	flag.Parse()
	ok, err := run(*include, *root, *unaccounted, *covered, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apicoverage:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(include, root string, unaccounted int, covered float64, verbose bool) (bool, error) {
	api, err := readHeaders(include)
	if err != nil {
		return false, err
	}
	docs, err := readDocs(root, "cgo", "ibv", "cm")
	if err != nil {
		return false, err
	}
	tests, err := readTests(root)
	if err != nil {
		return false, err
	}
	table, err := readTable(root + "/ci/apicoverage/functions")
	if err != nil {
		return false, err
	}
	r := judge(api, docs, tests, table)
	r.print(os.Stdout, verbose)
	ok := len(r.wrong) == 0
	if n := len(r.by[unknown]); n > unaccounted {
		fmt.Printf("%d functions are unaccounted for, %d may be\n", n, unaccounted)
		ok = false
	}
	if p := r.covered(); p < covered {
		fmt.Printf("%.1f %% is covered, %.1f %% has to be\n", p, covered)
		ok = false
	}
	return ok, nil
}
