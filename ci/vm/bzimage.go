package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os/exec"
)

// unpackImage writes the ELF file that a bzImage holds, which QEMU boots as
// well: emulated, the kernel's own unpacking takes seconds of each boot.
func unpackImage(bzImage []byte, w io.Writer) error {
	payload, err := imagePayload(bzImage)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		magic string
		argv  []string
	}{
		{"\xfd7zXZ\x00", []string{"xz", "-dc", "--single-stream"}},
		{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
	} {
		if !bytes.HasPrefix(payload, []byte(c.magic)) {
			continue
		}
		cmd := exec.Command(c.argv[0], c.argv[1:]...)
		cmd.Stdin, cmd.Stdout = bytes.NewReader(payload), w
		return cmd.Run()
	}
	return errors.New("the kernel is compressed in another way")
}

// imagePayload finds the compressed kernel; the offsets are those of the
// kernel's Documentation/arch/x86/boot.rst.
func imagePayload(image []byte) ([]byte, error) {
	le := binary.LittleEndian
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errors.New("not an x86 kernel image")
	}
	sectors := int(image[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	start := uint64(sectors+1)*512 + uint64(le.Uint32(image[0x248:]))
	end := start + uint64(le.Uint32(image[0x24c:]))
	if end > uint64(len(image)) || end-start < 4 {
		return nil, errors.New("the kernel image is cut short")
	}
	// The last four bytes are the unpacked size.
	return image[start : end-4], nil
}
