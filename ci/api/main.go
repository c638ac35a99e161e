// Command api lists what the packages of the stability promise export, a line for
// each name: with a FILE, it fails where a line of that file is gone.
// api [FILE]
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var packages = []string{"cm", "cm/policy", "ibv"}

func main() {
	var all []string
	for _, p := range packages {
		lines, err := list(p)
		if err != nil {
			fail(err)
		}
		all = append(all, lines...)
	}
	if len(os.Args) < 2 {
		fmt.Println(strings.Join(all, "\n"))
		return
	}
	was, err := os.Open(os.Args[1])
	if err != nil {
		fail(err)
	}
	defer was.Close()
	gone := 0
	for in := bufio.NewScanner(was); in.Scan(); {
		if !slices.Contains(all, in.Text()) {
			gone++
			fmt.Println("gone:", in.Text())
		}
	}
	if gone > 0 {
		fail(fmt.Errorf("%d promised lines of %s are gone or changed; where that is meant, say so in the commit, and: make api", gone, os.Args[1]))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "api:", err)
	os.Exit(1)
}

// list is what a package exports on Linux with cgo, sorted.
func list(dir string) ([]string, error) {
	ctx := build.Default
	ctx.GOOS, ctx.CgoEnabled = "linux", true
	p, err := ctx.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	l := &lister{pkg: dir, files: token.NewFileSet()}
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		f, err := parser.ParseFile(l.files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			l.decl(d)
		}
	}
	slices.Sort(l.lines)
	return slices.Compact(l.lines), nil
}

type lister struct {
	pkg   string
	files *token.FileSet
	lines []string
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, l.pkg+": "+fmt.Sprintf(format, args...))
}

func (l *lister) text(n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, l.files, n)
	return strings.Join(strings.Fields(b.String()), " ")
}

func (l *lister) decl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return
		}
		receiver := ""
		if d.Recv != nil {
			t := l.text(d.Recv.List[0].Type)
			if !ast.IsExported(strings.TrimPrefix(t, "*")) {
				return
			}
			receiver = "(" + t + ") "
		}
		unname(d.Type)
		l.add("func %s%s%s", receiver, d.Name.Name, strings.TrimPrefix(l.text(d.Type), "func"))
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				l.typ(s)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						l.add("%v %s", d.Tok, n.Name)
					}
				}
			}
		}
	}
}

func (l *lister) typ(s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	equals := ""
	if s.Assign.IsValid() {
		equals = "= "
	}
	t, ok := s.Type.(*ast.StructType)
	if !ok {
		l.add("type %s %s%s", s.Name.Name, equals, l.text(s.Type))
		return
	}
	l.add("type %s struct", s.Name.Name)
	for _, f := range t.Fields.List {
		for _, n := range f.Names {
			if n.IsExported() {
				l.add("type %s struct, %s %s", s.Name.Name, n.Name, l.text(f.Type))
			}
		}
		if t := l.text(f.Type); f.Names == nil && ast.IsExported(t[strings.LastIndexAny(t, "*.")+1:]) {
			l.add("type %s struct, embedded %s", s.Name.Name, t)
		}
	}
}

// unname takes the parameters' names away, which are no promise.
func unname(t *ast.FuncType) {
	for _, list := range []*ast.FieldList{t.Params, t.Results} {
		if list == nil {
			continue
		}
		var fields []*ast.Field
		for _, f := range list.List {
			for range max(1, len(f.Names)) {
				fields = append(fields, &ast.Field{Type: f.Type})
			}
		}
		list.List = fields
	}
}
