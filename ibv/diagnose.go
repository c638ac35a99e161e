package ibv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// DeviceReport says whether a device that the kernel has can be used, and if not,
// why.
type DeviceReport struct {
	Name    string // the kernel's name, "rxe0"
	CharDev string // its character device, "/dev/infiniband/uverbs0"; empty where it has none
	// Err is nil for a device that can be used. It matches
	// ErrDeviceNotAccessible where the character device is not there or not to
	// be opened, and ErrNoProvider where rdma-core's part for it is missing.
	Err error
}

func (r DeviceReport) String() string {
	if r.Err == nil {
		return r.Name + ": usable"
	}
	return r.Name + ": " + r.Err.Error()
}

// Where the kernel and udev put what Diagnose looks at.
var (
	sysfsVerbs = "/sys/class/infiniband_verbs"
	devDir     = "/dev/infiniband"
)

// Diagnose looks at each device that the kernel has, from the kernel's side:
// Devices lists only those that libibverbs finds a provider for. Without RDMA in
// the kernel the error matches ErrNoRDMA.
func Diagnose() ([]DeviceReport, error) {
	const op = "diagnose devices"
	names, err := filepath.Glob(filepath.Join(sysfs, "*"))
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	list, listErr := cgo.Devices()
	if len(names) == 0 && listErr != nil {
		return nil, noRDMA(op, listErr)
	}
	listed := map[string]bool{}
	for _, d := range list {
		listed[d.Name] = true
	}
	chars := charDevs()
	out := make([]DeviceReport, len(names))
	for i, path := range names {
		name := filepath.Base(path)
		out[i] = DeviceReport{Name: name, Err: diagnose(name, chars[name], listed[name])}
		if char := chars[name]; char != "" {
			out[i].CharDev = filepath.Join(devDir, char)
		}
	}
	return out, nil
}

// charDevs names the character device of each device.
func charDevs() map[string]string {
	out := map[string]string{}
	dirs, _ := filepath.Glob(filepath.Join(sysfsVerbs, "uverbs*"))
	for _, dir := range dirs {
		if name, err := os.ReadFile(filepath.Join(dir, "ibdev")); err == nil {
			out[strings.TrimSpace(string(name))] = filepath.Base(dir)
		}
	}
	return out
}

func diagnose(name, char string, listed bool) error {
	const op = "diagnose device"
	if char == "" {
		return &Error{Op: op, Object: name, Kind: ErrDeviceNotAccessible,
			Hint: "the kernel shows no character device for it: load ib_uverbs (modprobe ib_uverbs)"}
	}
	path := filepath.Join(devDir, char)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &Error{Op: op, Object: name, Kind: ErrDeviceNotAccessible, Err: err,
			Hint: fmt.Sprintf("character device missing; in a container: --device=%s --device=%s", path, filepath.Join(devDir, "rdma_cm"))}
	case errors.Is(err, syscall.EPERM):
		return &Error{Op: op, Object: name, Kind: ErrDeviceNotAccessible, Err: err,
			Hint: "a device rule of the container's cgroup, a device of another network namespace where RDMA's are exclusive (rdma system show), or a file that is no such device: --device=" + path}
	case err != nil:
		return &Error{Op: op, Object: name, Kind: ErrDeviceNotAccessible, Err: err, Hint: "is it yours to read and write?"}
	}
	_ = f.Close()
	if !listed {
		return &Error{Op: op, Object: name, Kind: ErrNoProvider,
			Hint: "the kernel has it, libibverbs has no provider for it: install rdma-core's (Debian: ibverbs-providers), as new as the kernel's driver"}
	}
	return nil
}
