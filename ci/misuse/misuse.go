// Package misuse calls what a package exports as nobody should: on nil, zero and
// closed objects, with such objects as arguments, with numbers out of range. It is
// for tests.
package misuse

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a call may take. Its context is over before it begins.
const patience = 60 * time.Second

// Exported names the exported functions of the package in dir, and those of its
// exported types that have exported methods, whatever the system they are built for.
func Exported(t testing.TB, dir string) (types, funcs []string) {
	t.Helper()
	each(t, dir, func(of, name, _ string) {
		if of == "" {
			funcs = append(funcs, name)
		} else {
			types = append(types, of)
		}
	})
	slices.Sort(types)
	slices.Sort(funcs)
	return slices.Compact(types), slices.Compact(funcs)
}

// Examples names what the package's examples are of: QP, SendBatch.Run.
func Examples(t testing.TB, dir string) (names []string) {
	t.Helper()
	parse(t, dir, func(name string, fn *ast.FuncDecl) {
		of, found := strings.CutPrefix(fn.Name.Name, "Example")
		if found && strings.HasSuffix(name, "_test.go") && fn.Recv == nil {
			names = append(names, strings.Replace(of, "_", ".", 1))
		}
	})
	slices.Sort(names)
	return names
}

// Implementing names the exported functions and methods, as QP.Modify, that wrap a
// function of C: their docs say so.
func Implementing(t testing.TB, dir string) (names []string) {
	t.Helper()
	each(t, dir, func(of, name, doc string) {
		if strings.Contains(doc, "Implements:") {
			names = append(names, strings.TrimPrefix(of+"."+name, "."))
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// each calls f for every exported function, and method of an exported type.
func each(t testing.TB, dir string, f func(of, name, doc string)) {
	t.Helper()
	parse(t, dir, func(name string, fn *ast.FuncDecl) {
		if strings.HasSuffix(name, "_test.go") || !fn.Name.IsExported() {
			return
		}
		of := ""
		if fn.Recv != nil {
			typ := fn.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			id, ok := typ.(*ast.Ident)
			if !ok || !id.IsExported() {
				return
			}
			of = id.Name
		}
		f(of, fn.Name.Name, fn.Doc.Text())
	})
}

// parse calls f for every function and the file that it is in.
func parse(t testing.TB, dir string, f func(file string, fn *ast.FuncDecl)) {
	t.Helper()
	//nolint:staticcheck // build constraints are to be ignored
	pkgs, err := parser.ParseDir(token.NewFileSet(), dir, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range pkgs {
		for name, file := range pkg.Files {
			for _, d := range file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					f(name, fn)
				}
			}
		}
	}
}

// Caller makes calls, with arguments that it draws from a seed.
type Caller struct {
	t     testing.TB
	rng   *rand.Rand
	pool  map[reflect.Type][]reflect.Value
	fixed map[reflect.Type]reflect.Value
	over  context.Context
}

// New makes a Caller. Objects are what arguments of their types are drawn from,
// beside nil.
func New(t testing.TB, seed uint64, objects ...any) *Caller {
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := &Caller{t: t, rng: rand.New(rand.NewPCG(seed, 0)), pool: make(map[reflect.Type][]reflect.Value),
		fixed: make(map[reflect.Type]reflect.Value), over: ctx}
	for _, o := range objects {
		v := reflect.ValueOf(o)
		c.pool[v.Type()] = append(c.pool[v.Type()], v)
	}
	return c
}

// Fix lets arguments of v's type always be v.
func (c *Caller) Fix(v any) { c.fixed[reflect.TypeOf(v)] = reflect.ValueOf(v) }

// Methods calls every exported method of v n times, but for those in leave, and
// hands each outcome to judge, which may be nil. What a call has made is closed.
func (c *Caller) Methods(v any, n int, leave []string, judge func(method string, err error, hasErr bool)) {
	c.t.Helper()
	r := reflect.ValueOf(v)
	for i := range r.NumMethod() {
		name := r.Type().Method(i).Name
		if slices.Contains(leave, name) {
			continue
		}
		for range n {
			out, ok := c.Func(fmt.Sprintf("%T.%s", v, name), r.Method(i))
			if ok && judge != nil {
				err, hasErr := last(out)
				judge(name, err, hasErr)
			}
		}
	}
}

// Func calls a function once; false where it panicked or did not return, which
// fails the test.
func (c *Caller) Func(name string, f reflect.Value) (out []reflect.Value, ok bool) {
	c.t.Helper()
	typ := f.Type()
	var args []reflect.Value
	for k := range typ.NumIn() {
		args = append(args, c.Value(typ.In(k)))
	}
	panicked := make(chan string, 1)
	go func() {
		defer close(panicked)
		defer func() {
			if p := recover(); p != nil {
				panicked <- fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		if typ.IsVariadic() {
			out = f.CallSlice(args)
		} else {
			out = f.Call(args)
		}
		if err, _ := last(out); err == nil {
			discard(out)
		}
	}()
	select {
	case p, bad := <-panicked:
		if bad {
			c.t.Errorf("%s%s panicked: %s", name, show(args), p)
		}
		return out, !bad
	case <-time.After(patience):
		c.t.Fatalf("%s%s has not returned", name, show(args))
		return nil, false
	}
}

// last is the error that a call returned, if it is one that does.
func last(out []reflect.Value) (err error, has bool) { //nolint:revive // the error is what is asked for
	if len(out) == 0 || out[len(out)-1].Type() != reflect.TypeFor[error]() {
		return nil, false
	}
	err, _ = out[len(out)-1].Interface().(error)
	return err, true
}

// discard closes what a call has made.
func discard(out []reflect.Value) {
	for _, v := range out {
		if v.Kind() != reflect.Pointer || v.IsNil() {
			continue
		}
		if o, ok := v.Interface().(interface{ Close() error }); ok {
			_ = o.Close()
		}
	}
}

func show(args []reflect.Value) string {
	var s []string
	for _, a := range args {
		s = append(s, fmt.Sprintf("%.300s", fmt.Sprintf("%#v", a)))
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// Value draws a value of type t.
func (c *Caller) Value(t reflect.Type) reflect.Value {
	if v, ok := c.fixed[t]; ok {
		return v
	}
	if t == reflect.TypeFor[context.Context]() {
		return reflect.ValueOf(&c.over).Elem()
	}
	v := reflect.New(t).Elem()
	if known := c.pool[t]; len(known) > 0 {
		if k := c.rng.IntN(len(known) + 1); k < len(known) {
			return known[k]
		}
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(c.rng.IntN(2) == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(1)<<(t.Bits()-1) - 1
		v.SetInt([]int64{0, 1, 7, most, -1, -most - 1}[c.rng.IntN(6)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint([]uint64{0, 1, 7, 1<<t.Bits() - 1}[c.rng.IntN(4)])
	case reflect.String:
		v.SetString([]string{"", "nowhere"}[c.rng.IntN(2)])
	case reflect.Slice:
		n := []int{0, 1, 2}[c.rng.IntN(3)]
		if t.Elem().Kind() == reflect.Uint8 {
			n = []int{0, 1, 64, 300}[c.rng.IntN(4)]
		}
		if n > 0 {
			v.Set(reflect.MakeSlice(t, n, n))
		}
		for i := range n {
			v.Index(i).Set(c.Value(t.Elem()))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(c.Value(t.Field(i).Type))
			}
		}
	case reflect.Func:
		if c.rng.IntN(2) == 1 {
			v.Set(reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
				for i := range t.NumOut() {
					out = append(out, c.Value(t.Out(i)))
				}
				return out
			}))
		}
	}
	return v
}
