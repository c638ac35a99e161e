package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// style has the colours twice, for light and for dark.
const style = `
text { font-family: system-ui, "DejaVu Sans", sans-serif; }
.mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.bold { font-weight: 600; }
.page { fill: #ffffff; }
.box { fill: #f6f8fa; stroke: #c4ccd4; stroke-width: 1.5; }
.line { fill: none; stroke: #c4ccd4; stroke-width: 1.5; }
.path { fill: none; stroke-width: 2; }
.path.good, .path.warn, .path.bad { stroke-width: 3; }
.path.host { stroke-dasharray: 7 5; }
.path.dashed { stroke-width: 2; stroke-dasharray: 3 4; }
text { fill: #1f2328; }
text.muted { fill: #59636e; }
text.good, .head.good { fill: #1a7f37; }
text.warn, .head.warn { fill: #8a5d00; }
text.bad, .head.bad { fill: #cf222e; }
text.host, .head.host { fill: #0757ba; }
.box.good, .line.good, .path.good { stroke: #1a7f37; }
.box.warn, .line.warn, .path.warn { stroke: #bf8700; }
.box.bad, .line.bad, .path.bad { stroke: #cf222e; }
.path.host { stroke: #0757ba; }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; }
.box { fill: #161b22; stroke: #4d5661; }
.line { stroke: #4d5661; }
text { fill: #e6edf3; }
text.muted { fill: #9da7b1; }
text.good, .head.good { fill: #3fb950; }
text.warn, .head.warn { fill: #d29922; }
text.bad, .head.bad { fill: #f85149; }
text.host, .head.host { fill: #58a6ff; }
.box.good, .line.good, .path.good { stroke: #3fb950; }
.box.warn, .line.warn, .path.warn { stroke: #d29922; }
.box.bad, .line.bad, .path.bad { stroke: #f85149; }
.path.host { stroke: #58a6ff; }
}
`

// face is a typeface by its width: thousandths of the size for a character, on
// the wide side, for a viewer's own fonts differ.
type face int

const (
	sans face = 620
	mono face = 610
)

// width of a text in pixels.
func (f face) width(s string, size int) int {
	return (utf8.RuneCountInString(s)*int(f)*size + 999) / 1000
}

// span is a line of a box.
type span struct{ class, text string }

func (s span) width() int {
	switch {
	case strings.Contains(s.class, "mono"):
		return mono.width(s.text, 13)
	case strings.Contains(s.class, "bold"):
		return sans.width(s.text, 14) // bold is wider
	}
	return sans.width(s.text, 13)
}

// box is a frame with lines of text.
type box struct {
	x, y, w, h int
	class      string
	lines      []span
}

func (b box) width() int {
	w := 0
	for _, l := range b.lines {
		w = max(w, l.width())
	}
	return w + 2*padding
}

func (b box) height() int { return len(b.lines)*lineStep + 2*padding - 4 }

// canvas collects the elements.
type canvas struct{ b strings.Builder }

func (c *canvas) text(x, y, size int, class, s string) {
	fmt.Fprintf(&c.b, "<text x=\"%d\" y=\"%d\" font-size=\"%d\" class=\"%s\" xml:space=\"preserve\">%s</text>\n", x, y, size, class, escape(s))
}

// box centres its lines from top to bottom.
func (c *canvas) box(b box) {
	fmt.Fprintf(&c.b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" class=\"box %s\"/>\n", b.x, b.y, b.w, b.h, b.class)
	y := b.y + (b.h-len(b.lines)*lineStep)/2 + 13
	for _, l := range b.lines {
		c.text(b.x+padding, y, 13, l.class, l.text)
		y += lineStep
	}
}

func (c *canvas) line(x1, y1, x2, y2 int, class string) {
	fmt.Fprintf(&c.b, "<path d=\"M %d %d C %d %d %d %d %d %d\" class=\"line %s\"/>\n", x1, y1, (x1+x2)/2, y1, (x1+x2)/2, y2, x2, y2, class)
}

// path runs straight below its label up to bend, then to its end: the tip of an
// arrow, or, blocked, a cross at the bend.
func (c *canvas) path(x, y, bend, x2, y2 int, class string, blocked bool) {
	if blocked {
		fmt.Fprintf(&c.b, "<path d=\"M %d %d H %d M %d %d l 14 14 m 0 -14 l -14 14\" class=\"path %s\"/>\n", x, y, bend-7, bend-7, y-7, class)
		return
	}
	tip, half := x2-9, (bend+x2-9)/2
	fmt.Fprintf(&c.b, "<path d=\"M %d %d H %d C %d %d %d %d %d %d\" class=\"path %s\"/>\n", x, y, bend, half, y, half, y2, tip, y2, class)
	fmt.Fprintf(&c.b, "<path d=\"M %d %d l -10 -6 v 12 z\" class=\"head %s\"/>\n", x2-1, y2, class)
}

// svg is the whole file.
func (c *canvas) svg(width, height int, title, text string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>%s</title>
<desc>%s</desc>
<style>%s</style>
<rect width="%d" height="%d" class="page"/>
%s</svg>
`, width, height, width, height, escape(title), escape(text), style, width, height, c.b.String())
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}

// wrap breaks a text into lines of at most that many pixels, at spaces where it
// can.
func wrap(s string, width, size int) (out []string) {
	most := max(20, width*1000/(int(sans)*size))
	line := ""
	for _, word := range strings.Fields(s) {
		for utf8.RuneCountInString(word) > most {
			if line != "" {
				out, line = append(out, line), ""
			}
			r := []rune(word)
			out, word = append(out, string(r[:most])), string(r[most:])
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= most:
			line += " " + word
		default:
			out, line = append(out, line), word
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}
