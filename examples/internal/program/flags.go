package program

import (
	"flag"
	"strings"
)

// Split takes joined letters apart, as getopt does: -vC10 is -v -C=10.
func Split(fs *flag.FlagSet, args []string) []string {
	var out []string
	for _, arg := range args {
		if parts, ok := letters(fs, arg); ok {
			out = append(out, parts...)
		} else {
			out = append(out, arg)
		}
	}
	return out
}

func letters(fs *flag.FlagSet, arg string) (parts []string, ok bool) {
	if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' {
		return nil, false
	}
	if name, _, _ := strings.Cut(arg[1:], "="); fs.Lookup(name) != nil {
		return nil, false // -device, -V=false
	}
	for i := 1; i < len(arg); i++ {
		f := fs.Lookup(arg[i : i+1])
		if f == nil {
			return nil, false
		}
		if b, isBool := f.Value.(interface{ IsBoolFlag() bool }); isBool && b.IsBoolFlag() {
			parts = append(parts, "-"+f.Name)
			continue
		}
		if rest := arg[i+1:]; rest != "" {
			return append(parts, "-"+f.Name+"="+rest), true
		}
		return append(parts, "-"+f.Name), true
	}
	return parts, true
}
