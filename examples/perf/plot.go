package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
)

// A plot has logarithmic axes. What differs is what they mean: for latencies the
// horizontal one shows a percentile, a decade for each 9 of it, as plots of HDR
// histograms do.

// line is one curve.
type line struct {
	name string
	xs   []float64
	ys   []float64
}

// tick is a mark on an axis.
type tick struct {
	at   float64
	text string
}

const (
	plotWidth, plotHeight = 760.0, 420.0
	plotLeft, plotRight   = 80.0, 20.0
	plotTop, plotBottom   = 40.0, 50.0
)

var colours = []string{"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"}

// plot draws a report.
func plot(r *report, file string) error {
	var lines []line
	var across []tick
	label, unit := "percentile", "latency, microseconds"
	if tests[r.Test].kind == stream {
		lines, across = bySize(r)
		label, unit = "bytes of a message", "MB of 2^20 bytes per second"
	} else {
		lines, across = byPercentile(r)
	}
	title := fmt.Sprintf("rb-perf %s, %s -> %s on %s", r.Test, r.Local, r.Remote, r.Device)
	return os.WriteFile(file, draw(title, label, unit, lines, across), 0o644)
}

func bySize(r *report) ([]line, []tick) {
	average, peak := line{name: "average"}, line{name: "peak"}
	var across []tick
	for _, s := range r.Results {
		x := math.Log10(float64(s.Size))
		average.xs, average.ys = append(average.xs, x), append(average.ys, s.Bandwidth.Average)
		peak.xs, peak.ys = append(peak.xs, x), append(peak.ys, s.Bandwidth.Peak)
		across = append(across, tick{x, bytesText(s.Size)})
	}
	return []line{average, peak}, across
}

func byPercentile(r *report) ([]line, []tick) {
	var lines []line
	most := int64(1)
	for _, s := range r.Results {
		l := line{name: bytesText(s.Size)}
		if s.Size == 0 {
			l.name = "connection"
		}
		for _, b := range s.hist.CumulativeDistribution() {
			// The last percentile is 100, and infinitely far: it stands where the
			// number of messages has it.
			x := -math.Log10(max(1-b.Quantile/100, 1/float64(2*s.hist.TotalCount())))
			l.xs, l.ys = append(l.xs, x), append(l.ys, float64(b.ValueAt)/1e3)
		}
		most = max(most, s.hist.TotalCount())
		lines = append(lines, l)
	}
	across := []tick{{0, "0"}, {-math.Log10(.5), "50"}}
	for i, text := range []string{"90", "99", "99.9", "99.99", "99.999", "99.9999"} {
		if at := float64(i + 1); at <= math.Log10(float64(2*most)) {
			across = append(across, tick{at, text})
		}
	}
	return lines, across
}

func bytesText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}

// decades are the ticks of a logarithmic axis that holds low to high, which it
// widens to ticks.
func decades(low, high float64) (from, to float64, ticks []tick) {
	marks := []float64{1, 2, 5}
	if math.Log10(high/low) > 4 {
		marks = marks[:1]
	}
	at := func(i int) float64 {
		d := math.Floor(float64(i) / float64(len(marks)))
		return marks[i-int(d)*len(marks)] * math.Pow(10, d)
	}
	i := int(math.Floor(math.Log10(low))) * len(marks)
	for at(i+1) <= low {
		i++
	}
	from = at(i)
	for ; ; i++ {
		to = at(i)
		ticks = append(ticks, tick{math.Log10(to), fmt.Sprintf("%g", to)})
		if to >= high && to > from {
			return math.Log10(from), math.Log10(to), ticks
		}
	}
}

func draw(title, label, unit string, lines []line, across []tick) []byte {
	low, high := math.Inf(1), 0.0
	left, right := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for i, y := range l.ys {
			if y > 0 {
				low, high = min(low, y), max(high, y)
			}
			left, right = min(left, l.xs[i]), max(right, l.xs[i])
		}
	}
	if high == 0 {
		low, high = 1, 1
	}
	if !(right > left) {
		left, right = left-.5, right+.5
	}
	from, to, up := decades(low, high)
	px := func(x float64) float64 {
		return plotLeft + (x-left)/(right-left)*(plotWidth-plotLeft-plotRight)
	}
	py := func(y float64) float64 {
		return plotHeight - plotBottom - (y-from)/(to-from)*(plotHeight-plotTop-plotBottom)
	}

	var b bytes.Buffer
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	rule := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	text(plotLeft, 20, "start", title)
	for _, t := range up {
		rule(plotLeft, py(t.at), plotWidth-plotRight, py(t.at))
		text(plotLeft-6, py(t.at)+4, "end", t.text)
	}
	for _, t := range across {
		if t.at < left || t.at > right {
			continue
		}
		rule(px(t.at), plotTop, px(t.at), plotHeight-plotBottom)
		text(px(t.at), plotHeight-plotBottom+16, "middle", t.text)
	}
	text((plotLeft+plotWidth-plotRight)/2, plotHeight-10, "middle", label)
	fmt.Fprintf(&b, `<text transform="translate(20 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", plotHeight/2, html.EscapeString(unit))
	for i, l := range lines {
		colour := colours[i%len(colours)]
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colour)
		for j, x := range l.xs {
			if l.ys[j] > 0 {
				fmt.Fprintf(&b, "%.1f,%.1f ", px(x), py(math.Log10(l.ys[j])))
			}
		}
		b.WriteString("\"/>\n")
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n", plotLeft+8, plotTop+14+14*float64(i), colour, html.EscapeString(l.name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
