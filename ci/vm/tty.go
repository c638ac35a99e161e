//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"
)

func ioctl(fd uintptr, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// makeRaw hands every key to the guest; restore undoes it. ok is false where
// the file is no terminal.
func makeRaw(f *os.File) (restore func(), ok bool) {
	var old syscall.Termios
	if ioctl(f.Fd(), syscall.TCGETS, unsafe.Pointer(&old)) != nil {
		return nil, false
	}
	raw := old
	raw.Iflag &^= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP |
		syscall.INLCR | syscall.IGNCR | syscall.ICRNL | syscall.IXON
	raw.Oflag &^= syscall.OPOST
	raw.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	raw.Cflag = raw.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8
	raw.Cc[syscall.VMIN], raw.Cc[syscall.VTIME] = 1, 0
	if ioctl(f.Fd(), syscall.TCSETS, unsafe.Pointer(&raw)) != nil {
		return nil, false
	}
	return func() { _ = ioctl(f.Fd(), syscall.TCSETS, unsafe.Pointer(&old)) }, true
}

func isTerminal(f *os.File) bool {
	var t syscall.Termios
	return ioctl(f.Fd(), syscall.TCGETS, unsafe.Pointer(&t)) == nil
}

func terminalSize(f *os.File) winsize {
	var w winsize
	_ = ioctl(f.Fd(), syscall.TIOCGWINSZ, unsafe.Pointer(&w))
	return w
}

// interactive runs the command with the driver's input: on a pseudo-terminal
// where the driver has a terminal, else on a pipe.
func (a *agent) interactive(r run) error {
	if !r.TTY {
		in, pipe, err := os.Pipe()
		if err != nil {
			return err
		}
		p, err := a.start(r.Argv, in, stream{a.link, kindStdout}, stream{a.link, kindStderr})
		in.Close()
		if err != nil {
			return a.notStarted(r.Argv[0], err)
		}
		go a.feed(p, pipe, nil)
		return a.finish(p, r)
	}

	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	var number, unlock int32
	if err := ioctl(master.Fd(), syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
		return fmt.Errorf("pseudo-terminal: %w", err)
	}
	if err := ioctl(master.Fd(), syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)); err != nil {
		return fmt.Errorf("pseudo-terminal: %w", err)
	}
	_ = ioctl(master.Fd(), syscall.TIOCSWINSZ, unsafe.Pointer(&r.Size))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	p := &proc{done: make(chan struct{})}
	err = a.exec(p, r.Argv, []*os.File{slave, slave, slave}, &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0})
	slave.Close()
	if err != nil {
		return a.notStarted(r.Argv[0], err)
	}
	// Reading ends with EIO when the last process has left the terminal.
	p.copies.Go(func() { _, _ = io.Copy(stream{a.link, kindStdout}, master) })
	go a.feed(p, master, func(w winsize) { _ = ioctl(master.Fd(), syscall.TIOCSWINSZ, unsafe.Pointer(&w)) })
	return a.finish(p, r)
}

// feed serves the driver while the command runs; to is nil where the command
// has no input, resize where it has no terminal.
func (a *agent) feed(p *proc, to io.WriteCloser, resize func(winsize)) {
	for {
		k, payload, err := readFrame(a.in)
		if err != nil {
			return
		}
		switch {
		case k == kindStdin && to != nil && len(payload) == 0:
			_ = to.Close()
		case k == kindStdin && to != nil:
			// An error means that nobody reads it; the rest is dropped too.
			_, _ = to.Write(payload)
		case k == kindResize && resize != nil:
			var w winsize
			if json.Unmarshal(payload, &w) == nil {
				resize(w)
			}
		case k == kindSignal && len(payload) == 1:
			_ = syscall.Kill(-p.pid, syscall.Signal(payload[0]))
		}
	}
}
