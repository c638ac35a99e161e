package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rails2 is a host with two rails and long addresses.
func rails2() *fake {
	return (&fake{}).add("lo", "", 65536, "127.0.0.1/8", "::1/128").
		add("eno1", "", 1500, "192.0.2.17/24").
		add("ens1f0np0", "mlx5_0", 4200, "10.10.0.1/24", "2001:db8:1111:2222:3333:4444:5555:6661/64", "fe80::5054:ff:fe00:1/64").
		add("ens2f1np1", "mlx5_1", 4200, "10.10.1.1/24", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1/64", "fe80::5054:ff:fe00:2/64")
}

var pictures = []struct {
	name, args string
	host       func() *fake
	texts      []string
}{
	{"accepted", "-bind 10.10.1.1 10.10.1.2:7471", rails2, []string{"accepted: mlx5_1/1 on ens2f1np1", "10.10.1.1/24  bound", "host&#39;s route", "the connection, on mlx5_1", "and 1 more without RDMA"}},
	{"overridden", "-bind 10.10.1.1 10.10.1.2:7471", func() *fake { return rails2().route("10.10.1.2/32", "ens1f0np0", "10.10.0.254") },
		[]string{"accepted, overridden: mlx5_1/1", "host&#39;s route via 10.10.0.254"}},
	{"assumed", "-bind 10.10.1.1 10.10.0.2", rails2, []string{"assumed on-link", "ip rule add from 10.10.1.1", "as root:"}},
	{"refused", "-bind 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 [2001:db8:1111:2222:3333:4444:5555:6662]:7471", rails2,
		[]string{"refused: ErrRouteMismatch, EHOSTUNREACH", "what the kernel would do", "ip -6 rule add from 2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff1 lookup 1004"}},
	{"unbound", "10.10.1.2", rails2, []string{"accepted: mlx5_1/1"}},
	{"no-route", "198.51.100.7", rails2, []string{"ErrNoRoute", "host&#39;s route: no route"}},
	{"without-rdma", "192.0.2.18", rails2, []string{"ErrNotRDMA", "no RDMA"}},
	{"loopback", "-bind 10.10.1.1 10.10.1.1", rails2, []string{"an address of this host"}},
	{"name", "-bind 10.10.1.1 storage.example:7471", rails2, []string{"storage.example", "10.10.1.2:7471"}},
	{"unknown-name", "nobody.example", rails2, []string{"undecided", "no such host"}},
	{"no-rdma", "10.1.0.2", func() *fake {
		return (&fake{}).add("lo", "", 65536, "127.0.0.1/8").add("eth0", "", 1500, "10.1.0.1/24")
	}, []string{"undecided", "modprobe"}},
	{"many", "-bind 10.200.7.1 10.200.7.2", manyRails, []string{"mlx5_15/1", "and 5 more", "and 9 more"}},
	{"odd-names", "-bind 10.1.0.1 10.1.0.2", func() *fake {
		return (&fake{}).add(`a<b>&"'`, "</text>", 1500, "10.1.0.1/24")
	}, []string{`a&lt;b&gt;&amp;&#34;&#39;`, "&lt;/text&gt;/1"}},
}

func manyRails() *fake {
	h := &fake{}
	for n := range 16 {
		addrs := []string{fmt.Sprintf("10.200.%d.1/24", n)}
		for i := range 10 * (n % 2) {
			addrs = append(addrs, fmt.Sprintf("2001:db8:aaaa:%x:cccc:dddd:eeee:%x/64", n, i+1))
		}
		h.add(fmt.Sprintf("enp%ds0f1np1", n), fmt.Sprintf("mlx5_%d", n), 9000, addrs...)
	}
	return h.route("10.200.7.2/32", "enp2s0f1np1", "10.200.2.254")
}

// TestPictures draws each kind of verdict. With RAILBIND_PICTURES=DIR the files
// are kept, to be looked at.
func TestPictures(t *testing.T) {
	knowNames(t, map[string][]string{"storage.example": {"2001:db8:aaaa:bbbb:cccc:dddd:eeee:fff2", "10.10.1.2", "10.10.0.2"}})
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			o, err := parse(strings.Fields("-svg - " + p.args))
			require.NoError(t, err)
			r := explainOn(t.Context(), p.host(), nil, o)
			svg := r.picture()
			require.True(t, svg == explainOn(t.Context(), p.host(), nil, o).picture(), "the same host, the same picture")
			for _, s := range p.texts {
				require.True(t, strings.Contains(svg, s), "no %q in the picture", s)
			}
			checkPicture(t, svg)
			if p.name == "refused" && os.Getenv("RAILBIND_PICTURES") == "" {
				shown, err := os.ReadFile("refused.svg")
				require.NoError(t, err)
				require.True(t, svg == string(shown), "the guide shows another picture: RAILBIND_PICTURES=. go test -run Pictures/refused writes it")
			}
			if dir := os.Getenv("RAILBIND_PICTURES"); dir != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, p.name+".svg"), []byte(svg), 0o644))
			}
		})
	}
}

// checkPicture wants well-formed XML, all boxes apart, and all texts inside of
// the picture, those of a box inside of that.
func checkPicture(t *testing.T, svg string) {
	t.Helper()
	type rect struct{ x, y, w, h int }
	var page rect
	var boxes []rect
	var text *rect
	type said struct {
		rect
		s string
	}
	var texts []said
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			a := map[string]string{}
			for _, v := range e.Attr {
				a[v.Name.Local] = v.Value
			}
			n := func(key string) int { v, _ := strconv.Atoi(a[key]); return v }
			switch {
			case e.Name.Local == "rect" && a["class"] == "page":
				page = rect{0, 0, n("width"), n("height")}
			case e.Name.Local == "rect":
				boxes = append(boxes, rect{n("x"), n("y"), n("width"), n("height")})
			case e.Name.Local == "text":
				text = &rect{n("x"), n("y") - n("font-size"), 0, n("font-size")}
			}
		case xml.CharData:
			if text != nil {
				text.w = len([]rune(string(e))) * text.h * 6 / 10
				texts = append(texts, said{*text, string(e)})
			}
		case xml.EndElement:
			text = nil
		}
	}
	inside := func(a, b rect) bool { return a.x >= b.x && a.y >= b.y && a.x+a.w <= b.x+b.w && a.y+a.h <= b.y+b.h }
	apart := func(a, b rect) bool {
		return a.x+a.w <= b.x || b.x+b.w <= a.x || a.y+a.h <= b.y || b.y+b.h <= a.y
	}
	require.Positive(t, page.w)
	require.NotEmpty(t, boxes)
	for i, b := range boxes {
		require.True(t, inside(b, page), "%v leaves the page %v", b, page)
		for _, other := range boxes[:i] {
			require.True(t, apart(b, other), "%v and %v overlap", b, other)
		}
	}
	require.NotEmpty(t, texts)
	for i, s := range texts {
		require.True(t, inside(s.rect, page), "%q leaves the page: %v of %v", s.s, s.rect, page)
		for _, b := range boxes {
			require.True(t, apart(s.rect, b) || inside(s.rect, b), "%q leaves its box", s.s)
		}
		for _, other := range texts[:i] {
			require.True(t, apart(s.rect, other.rect), "%q and %q overlap", s.s, other.s)
		}
	}
}
