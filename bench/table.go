package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// writeTable writes what was measured as Markdown.
func writeTable(w io.Writer, a about, all []cell) {
	writeHead(w, a, "", "rates, and their ratios to a disk that others used, tell little here; CPU time and syncs tell more")
	fmt.Fprint(w, "| peer | version | an answer has waited for | how it was run |\n|---|---|---|---|\n")
	for _, p := range a.Peers {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", p.Name, p.Version, p.Durability, p.How)
	}
	fmt.Fprint(w, "\n| row | peer | median | spread | × zero | × grow | CPU µs a job | syncs a job | share | lead of spool |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	own := map[string]float64{}
	for _, c := range all {
		if c.peer == spoolPeer.name {
			own[c.row.name] = c.value.median
		}
	}
	last := ""
	for i := range all {
		name := ""
		if all[i].row.name != last {
			name, last = all[i].row.name, all[i].row.name
		}
		fmt.Fprintf(w, "| %s | %s |\n", name, strings.Join(all[i].columns(own[all[i].row.name]), " | "))
	}
	writeRows(w, all)
}

// writeHead says when, on what and over what was measured, and what a busy machine
// leaves of it.
func writeHead(w io.Writer, a about, over, busyly string) {
	fmt.Fprintf(w, "Measured %s: %s. Load average at the start %s; %s, interleaved; payload %d bytes of JSON%s.\n\n", a.When, a.Machine, a.Load, a.Scale, len(payload), over)
	if busy(a.Load) {
		fmt.Fprintf(w, "**The machine was busy with other work**: %s.\n\n", busyly)
	}
}

// writeRows says what each row is.
func writeRows(w io.Writer, all []cell) {
	fmt.Fprint(w, "\nThe rows:\n\n")
	last := ""
	for _, c := range all {
		if c.row.name != last {
			last = c.row.name
			fmt.Fprintf(w, "- `%s` (%s): %s.\n", c.row.name, c.row.unit, c.row.what)
		}
	}
}

// busy reports whether a load average is more than what the start of the
// benchmark itself makes.
func busy(load string) bool {
	v, err := strconv.ParseFloat(load, 64)
	return err == nil && v > 1
}

// columns are those from the peer on; own is spool's median of the row.
func (c *cell) columns(own float64) []string {
	peer := c.peer
	if c.jobs > 0 {
		peer += " (of " + count(float64(c.jobs)) + ")"
	}
	if !c.measured() {
		return []string{peer, "–", c.why(), "", "", "", "", "", ""}
	}
	s := []string{
		peer, count(c.value.median), count(c.value.low) + " – " + count(c.value.high),
		ratio(c.ofZero.median), ratio(c.ofGrow.median), blank(c.cpu, count), "", "", "",
	}
	if c.syncs != nil {
		s[6] = fmt.Sprintf("%.3f", *c.syncs)
	}
	if c.share != nil {
		s[7] = fmt.Sprintf("%.2f", *c.share)
	}
	s[8] = c.against(own)
	if c.fault != "" {
		s[2] += "; FAILED in some runs: " + oneLine(c.fault)
	}
	return s
}

// why is what stands in the place of a figure.
func (c *cell) why() string {
	if c.fault != "" {
		return "FAILED: " + oneLine(c.fault)
	}
	return c.none
}

// against says how many times as good as this spool is: less than 1 is a loss.
func (c *cell) against(own float64) string {
	if c.peer == spoolPeer.name || own == 0 || c.value.median == 0 {
		return ""
	}
	return c.row.times(own, c.value.median) + " ×"
}

// times says how many times as good as another value one is; "" when there are not two.
func (r *row) times(v, other float64) string {
	if v == 0 || other == 0 {
		return ""
	}
	if !r.faster {
		v, other = other, v
	}
	return ratio(v / other)
}

func ratio(v float64) string {
	return blank(v, func(v float64) string {
		if v >= 10 {
			return count(v)
		}
		return fmt.Sprintf("%.2f", v)
	})
}

// blank is what format makes of v, and nothing for 0.
func blank(v float64, format func(float64) string) string {
	if v == 0 {
		return ""
	}
	return format(v)
}

// count writes a figure with three digits that say something, and commas.
func count(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := math.Pow(10, math.Floor(math.Log10(v))-2)
	s := strconv.FormatInt(int64(math.Round(v/digits)*digits), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func oneLine(s string) string { return strings.NewReplacer("\n", "; ", "|", "/").Replace(s) }
