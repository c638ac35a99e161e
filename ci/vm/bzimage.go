package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os/exec"
)

var errNotXZ = errors.New("not a kernel image compressed by xz")

// unpackImage writes the ELF file that a bzImage holds, which QEMU boots as
// well: emulated, the kernel's own unpacking takes three seconds of each boot.
func unpackImage(bzImage []byte, w io.Writer) error {
	payload, err := imagePayload(bzImage)
	if err != nil {
		return err
	}
	cmd := exec.Command("xz", "-dc", "--single-stream")
	cmd.Stdin = bytes.NewReader(payload)
	cmd.Stdout = w
	return cmd.Run()
}

// imagePayload finds the compressed kernel; the offsets are those of the
// kernel's Documentation/arch/x86/boot.rst.
func imagePayload(image []byte) ([]byte, error) {
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errNotXZ
	}
	sectors := int(image[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	start := uint64(sectors+1)*512 + uint64(binary.LittleEndian.Uint32(image[0x248:]))
	end := start + uint64(binary.LittleEndian.Uint32(image[0x24c:]))
	if end > uint64(len(image)) || !bytes.HasPrefix(image[start:end], []byte("\xfd7zXZ\x00")) {
		return nil, errNotXZ
	}
	return image[start:end], nil
}
