package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const usage = `usage: ci/guest [FLAG...] -- COMMAND [ARG...]
       ci/guest [FLAG...] -shell [-- COMMAND [ARG...]]

Boots a stock Debian kernel with Soft-RoCE under QEMU, sets a topology up, runs
COMMAND in it, and exits with COMMAND's status. The guest sees this machine's
files read-only, under the same paths; what it writes is gone when it ends.

  -kernel V        6.1 (default), 6.12 or 7
  -hosts N         1 or 2; default: as many as the topology needs
  -topo NAME       %s;
                   default: pair with one host, rails with two
  -transport T     rxe (RoCE v2, default) or siw (iWARP)
  -rdma-core V     44, 56 or 65: the user space of the Debian suite that has it,
                   with this checkout in it; default: this machine's own
  -peer 'COMMAND'  shell command for host 2, ended when COMMAND ends; its output
                   goes to stderr, each line behind "peer| "
  -ready 'COMMAND' shell command tried in host 2 until it succeeds, before host
                   1's COMMAND starts
  -mortal          host 2 may die before host 1's COMMAND ends
  -out DIR         share DIR with the guest for writing
  -timeout D       end the guests after D (default 10m)
  -mem MIB         memory of a guest (default 2048)
  -cpus N          CPUs of a guest (default 2)
  -icount          one emulated CPU whose clock counts instructions, for
                   repeatable measurements; no KVM
  -shell           interactive: this terminal is COMMAND's (default: bash)
  -v               show the kernel's console and the set-up's output on stderr

Exit status: COMMAND's own; 128+n if signal n killed it; 124 timeout; 125 the
guest failed, or misuse; 126 COMMAND is not executable; 127 no such COMMAND.
`

// options of one run; parseOptions fills every default in.
type options struct {
	kernel    string
	hosts     int
	topo      string
	transport string
	rdmaCore  string
	peer      string
	ready     string
	mortal    bool
	out       string
	timeout   time.Duration
	mem       int
	cpus      int
	icount    bool
	shell     bool
	verbose   bool
	command   []string
}

var errHelp = errors.New("help")

// parseOptions reads the command line. topos maps each topology to the number
// of hosts it needs.
func parseOptions(args []string, topos map[string]int) (options, error) {
	var o options
	fs := flag.NewFlagSet("ci/guest", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&o.kernel, "kernel", "6.1", "")
	fs.IntVar(&o.hosts, "hosts", 0, "")
	fs.StringVar(&o.topo, "topo", "", "")
	fs.StringVar(&o.transport, "transport", "rxe", "")
	fs.StringVar(&o.rdmaCore, "rdma-core", "", "")
	fs.StringVar(&o.peer, "peer", "", "")
	fs.StringVar(&o.ready, "ready", "", "")
	fs.BoolVar(&o.mortal, "mortal", false, "")
	fs.StringVar(&o.out, "out", "", "")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "")
	fs.IntVar(&o.mem, "mem", 2048, "")
	fs.IntVar(&o.cpus, "cpus", 0, "")
	fs.BoolVar(&o.icount, "icount", false, "")
	fs.BoolVar(&o.shell, "shell", false, "")
	fs.BoolVar(&o.verbose, "v", false, "")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, errHelp
		}
		return o, err
	}
	o.command = fs.Args()

	switch o.kernel {
	case "7.x":
		o.kernel = "7"
	case "6.1", "6.12", "7":
	default:
		return o, fmt.Errorf("-kernel %q: there are 6.1, 6.12 and 7", o.kernel)
	}
	if o.hosts < 0 || o.hosts > 2 {
		return o, fmt.Errorf("-hosts %d: 1 or 2", o.hosts)
	}
	if o.topo == "" {
		o.topo = "pair"
		if o.hosts == 2 || o.hosts == 0 && o.peer != "" {
			o.topo = "rails"
		}
	}
	need, ok := topos[o.topo]
	if !ok {
		return o, fmt.Errorf("-topo %q: there are %s", o.topo, topoNames(topos))
	}
	if o.hosts == 0 {
		o.hosts = need
		if o.peer != "" {
			o.hosts = 2
		}
	}
	if o.hosts < need {
		return o, fmt.Errorf("-topo %s needs -hosts %d", o.topo, need)
	}
	if o.peer != "" && o.hosts != 2 {
		return o, errors.New("-peer needs -hosts 2")
	}
	if o.mortal && o.peer == "" {
		return o, errors.New("-mortal is about -peer's host; give -peer too")
	}
	if o.ready != "" && o.peer == "" {
		return o, errors.New("-ready waits for what -peer starts; give -peer too")
	}
	if o.transport != "rxe" && o.transport != "siw" {
		return o, fmt.Errorf("-transport %q: rxe or siw", o.transport)
	}
	switch o.rdmaCore {
	case "", "44", "56", "65":
	default:
		return o, fmt.Errorf("-rdma-core %q: there are 44, 56 and 65", o.rdmaCore)
	}
	if o.timeout <= 0 {
		return o, fmt.Errorf("-timeout %v: more than 0", o.timeout)
	}
	if o.mem < 256 {
		return o, fmt.Errorf("-mem %d: at least 256 (MiB)", o.mem)
	}
	if o.cpus == 0 {
		o.cpus = 2
		if o.icount {
			o.cpus = 1
		}
	}
	if o.cpus < 1 || o.icount && o.cpus != 1 {
		return o, fmt.Errorf("-cpus %d: at least 1, and exactly 1 with -icount", o.cpus)
	}
	if o.out != "" {
		dir, err := filepath.Abs(o.out)
		if err != nil {
			return o, err
		}
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return o, fmt.Errorf("-out %s: no such folder", o.out)
		}
		o.out = dir
	}
	if len(o.command) == 0 {
		if !o.shell {
			return o, errors.New("no COMMAND; ci/guest -h explains")
		}
		o.command = []string{"bash", "--norc"} // the caller's set-up is not for the guest
	}
	return o, nil
}

// readTopos lists the scripts of ci/topo. A script says in a comment line
// "# hosts: 2" how many hosts it is for; one without is for one.
func readTopos(dir string) (map[string]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	topos := map[string]int{}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".") {
			continue // lib.sh, an editor's leavings
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		topos[e.Name()] = 1
		if slices.Contains(strings.Split(string(text), "\n"), "# hosts: 2") {
			topos[e.Name()] = 2
		}
	}
	return topos, nil
}

func topoNames(topos map[string]int) string {
	var names []string
	for n := range topos {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// guestEnv picks what of the caller's environment the guest's command gets.
func guestEnv(environ []string) []string {
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "RAILBIND_"),
			strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "GOOGLE"),
			name == "ASAN_OPTIONS", name == "LSAN_OPTIONS", name == "TERM":
			env = append(env, kv)
		}
	}
	return env
}
