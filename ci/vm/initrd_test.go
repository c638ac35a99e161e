package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

const (
	modulesDep = `kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
kernel/net/9p/9pnet.ko:
kernel/fs/netfs/netfs.ko: kernel/lib/base.ko
kernel/lib/base.ko:
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/drivers/virtio/virtio-ring.ko
kernel/drivers/virtio/virtio-ring.ko:
`
	modulesBuiltin = "kernel/drivers/virtio/virtio_pci.ko\n"
)

func TestLoadOrder(t *testing.T) {
	got, err := loadOrder(modulesDep, modulesBuiltin, []string{"virtio-pci", "9pnet-virtio", "9p", "virtio_ring"})
	want := []string{
		"kernel/net/9p/9pnet.ko", "kernel/drivers/virtio/virtio-ring.ko", "kernel/net/9p/9pnet_virtio.ko",
		"kernel/lib/base.ko", "kernel/fs/netfs/netfs.ko", "kernel/fs/9p/9p.ko",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q, %v\nwant %q", got, err, want)
	}
	if _, err := loadOrder(modulesDep, modulesBuiltin, []string{"nosuch"}); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Fatalf("%v", err)
	}
}

// readCpio reads what cpio writes, by the format's own rules.
func readCpio(t *testing.T, b []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for {
		if len(b) < 110 || string(b[:6]) != "070701" {
			t.Fatalf("no header before %.20q", b)
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(b[6+8*i:14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(b[110 : 110+nameSize-1])
		data := (110 + nameSize + 3) &^ 3
		if name == "TRAILER!!!" {
			return files
		}
		files[name] = fmt.Sprintf("%o:%s", mode, b[data:data+size])
		b = b[data+(size+3)&^3:]
	}
}

func TestWriteInitrd(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var dep strings.Builder
	for i, m := range bootModules {
		fmt.Fprintf(&dep, "kernel/%s.ko:\n", m)
		put("kernel/"+m+".ko", strings.Repeat(m, i+1))
	}
	put("modules.dep", dep.String())
	put("modules.builtin", "")

	var archive bytes.Buffer
	if err := writeInitrd(&archive, []byte("agent"), dir); err != nil {
		t.Fatal(err)
	}
	files := readCpio(t, archive.Bytes())
	if files["init"] != "100755:agent" || files["proc"] != "40755:" {
		t.Fatalf("%q", files)
	}
	order := strings.Fields(strings.TrimPrefix(files["modules/order"], "100755:"))
	if len(order) != len(bootModules) {
		t.Fatalf("order: %q", order)
	}
	for i, m := range bootModules {
		if want := "100755:" + strings.Repeat(m, i+1); files[order[i]] != want {
			t.Errorf("%s: %q, want %q", order[i], files[order[i]], want)
		}
	}
}

func TestImagePayload(t *testing.T) {
	image := make([]byte, 0x400+100)
	image[0x1f1] = 1 // so the payload's offset counts from 2 * 512
	copy(image[0x202:], "HdrS")
	image[0x248], image[0x24c] = 10, 50
	copy(image[0x400+10:], "\xfd7zXZ\x00data")
	got, err := imagePayload(image)
	if err != nil || len(got) != 46 || !bytes.HasPrefix(got, []byte("\xfd7zXZ\x00data")) {
		t.Fatalf("%q, %v", got, err)
	}
	image[0x24c] = 200
	if _, err := imagePayload(image); err == nil {
		t.Error("a payload beyond the end was taken")
	}
	image[0x202] = 'X'
	if _, err := imagePayload(image); err == nil {
		t.Error("no kernel was taken")
	}
	if err := unpackImage(make([]byte, 10), &bytes.Buffer{}); err == nil {
		t.Error("a short file was taken")
	}
}
