package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var headers = []string{"infiniband/verbs.h", "rdma/rdma_cma.h", "rdma/rdma_verbs.h"}

// readHeaders returns the functions of the public headers, prototype by name.
func readHeaders(include string) (map[string]string, error) {
	api := map[string]string{}
	for _, h := range headers {
		text, err := os.ReadFile(filepath.Join(include, h))
		if err != nil {
			return nil, err
		}
		for name, prototype := range functions(string(text)) {
			api[name] = prototype
		}
	}
	return api, nil
}

var (
	comment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directive = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	attribute = regexp.MustCompile(`__attribute\w*(\s*\(\((?:[^()]|\([^()]*\))*\)\))?`)
	called    = regexp.MustCompile(`\b(\w+)\s*\(`)
)

// functions finds what is declared or defined at the top level of a header.
// Names that begin with an underscore are how a public one is made.
func functions(text string) map[string]string {
	text = strings.ReplaceAll(text, "\\\n", " ") // macros of several lines
	text = comment.ReplaceAllString(text, " ")
	text = directive.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, `extern "C" {`, "")
	text = attribute.ReplaceAllString(text, " ")
	out := map[string]string{}
	depth, start := 0, 0
	end := func(i int) {
		statement := strings.Join(strings.Fields(text[start:i]), " ")
		m := called.FindStringSubmatch(statement)
		if m != nil && !strings.HasPrefix(m[1], "_") && !strings.HasPrefix(statement, "typedef") {
			out[m[1]] = statement
		}
	}
	for i, c := range text {
		switch c {
		case '{':
			if depth == 0 {
				end(i)
			}
			depth++
		case '}':
			depth = max(0, depth-1)
			start = i + 1
		case ';':
			if depth == 0 {
				end(i)
				start = i + 1
			}
		}
	}
	return out
}
