//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/railbind/railbind/cm"
	"github.com/railbind/railbind/ibv"
)

const nobody = 65534

// asPoorUser runs this program's role poor as a user without rights.
func asPoorUser() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := shell("chmod 666 /dev/infiniband/*"); err != nil {
		return err
	}
	cmd := exec.Command("prlimit", "--memlock=65536:65536", self, "poor")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("as user %d with 64 KiB of locked memory: %w: %s", nobody, err, out)
	}
	return nil
}

// poor dials with more memory than it may lock, which an error has to say, and
// then with what fits.
func poor(ctx context.Context) error {
	d := cm.Dialer{LocalAddr: netip.MustParseAddrPort("10.10.1.1:0"), Queues: cm.QueueConfig{MaxMessage: 1 << 20}}
	remote := netip.AddrPortFrom(netip.MustParseAddr("10.10.1.2"), port)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	c, err := d.DialAddr(ctx, remote)
	if err == nil {
		return errors.Join(errors.New("32 MiB were locked: the limit does not hold here"), c.Close())
	}
	if !errors.Is(err, ibv.ErrMemlock) || !strings.Contains(err.Error(), "memlock") {
		return fmt.Errorf("the error does not name the limit: %w", err)
	}
	d.Queues = cm.QueueConfig{SendDepth: 2, RecvDepth: 2, MaxMessage: 4096}
	if c, err = d.DialAddr(ctx, remote); err != nil {
		return fmt.Errorf("16 KiB: %w", err)
	}
	return c.Close()
}
