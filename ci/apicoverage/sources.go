package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// implements matches the line of a doc, "Implements: int ibv_close_device(...)",
// and the lines after it, "and void ibv_ack_async_event(...)".
var implements = regexp.MustCompile(`(?m)^(?:Implements:|and) .*?\b(\w+)\(`)

// readDocs returns, by C function, the Go symbols whose docs implement it.
func readDocs(root string, packages ...string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, d := range tree.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || !f.Name.IsExported() || f.Doc == nil {
					continue
				}
				_, tail, _ := strings.Cut(f.Doc.Text(), "Implements:")
				for _, m := range implements.FindAllStringSubmatch("Implements:"+tail, -1) {
					out[m[1]] = append(out[m[1]], pkg+"."+f.Name.Name)
				}
			}
		}
	}
	return out, nil
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// readTests returns the names of all tests.
func readTests(root string) (map[string]bool, error) {
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
		return err
	})
	return out, err
}

// entry is what a file in functions/ says of a function.
type entry struct {
	class class
	text  string // the test, or the reason
	at    string
}

// readTable reads the files in functions/: "NAME CLASS TEST-OR-REASON" a line.
func readTable(dir string) (map[string]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	out := map[string]entry{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		s := bufio.NewScanner(f)
		for n := 1; s.Scan(); n++ {
			line := strings.TrimSpace(s.Text())
			if line == "" || line[0] == '#' {
				continue
			}
			at := fmt.Sprintf("%s:%d", file, n)
			part := strings.Fields(line)
			if len(part) < 3 {
				return nil, fmt.Errorf("%s: %q is not NAME CLASS TEST-OR-REASON", at, line)
			}
			if old, twice := out[part[0]]; twice {
				return nil, fmt.Errorf("%s: %s stands at %s too", at, part[0], old.at)
			}
			out[part[0]] = entry{class(part[1]), strings.Join(part[2:], " "), at}
		}
		if err := s.Err(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
