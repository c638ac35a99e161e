package program

import (
	"flag"
	"strings"
)

// Parse reads arguments whose letters may be joined, as getopt has it: -vC10 is
// -v -C=10.
func Parse(fs *flag.FlagSet, args []string) error {
	var out []string
	for _, arg := range args {
		if parts, ok := letters(fs, arg); ok {
			out = append(out, parts...)
		} else {
			out = append(out, arg)
		}
	}
	return fs.Parse(out)
}

// ParseAll takes flags behind the arguments too, and gives these.
func ParseAll(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return rest, nil
		}
		rest = append(rest, fs.Arg(0))
		args = fs.Args()[1:]
	}
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
			if word(rest) {
				return nil, false
			}
			return append(parts, "-"+f.Name+"="+rest), true
		}
		return append(parts, "-"+f.Name), true
	}
	return parts, true
}

// word tells whether a joined value looks like the rest of a long flag instead: then
// -policy is one that is not known, and not -p=olicy.
func word(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-") == "" }
