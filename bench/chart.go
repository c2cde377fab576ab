package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is a picture: bars of some rows, grouped by peer.
type chart struct {
	file, title string
	rows        []string
}

var charts = []chart{
	{"enqueue.svg", "enqueue, jobs a second (longer is better)", []string{"enqueue_1", "enqueue_8", "enqueue_64"}},
	{"work.svg", "claim and ack, jobs a second (longer is better)", []string{"claim_ack_1", "claim_ack_64", "drain_100k"}},
	{"latency.svg", "enqueue to handler, median in µs (shorter is better)", []string{"latency_busy_p50", "latency_idle_p50"}},
	{"waiting.svg", "a waiting job, bytes (shorter is better)", []string{"memory_1m", "disk_1m"}},
}

var barColors = []color.Color{
	color.RGBA{0x9e, 0xc5, 0xe8, 0xff}, color.RGBA{0x3f, 0x88, 0xc5, 0xff}, color.RGBA{0x1b, 0x3a, 0x5c, 0xff},
}

// drawCharts writes the pictures into dir.
func drawCharts(dir string, all []cell) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		if err := c.draw(filepath.Join(dir, c.file), all); err != nil {
			return fmt.Errorf("draw %s: %w", c.file, err)
		}
	}
	return nil
}

// bars are one row's figures, from the axis on; 0 means none.
type bars struct {
	values []float64 // by peer
	shift  vg.Length // from the middle of the peer's place
	width  vg.Length
	color  color.Color
	label  text.Style
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range b.values {
		if v <= 0 {
			continue
		}
		from, to, middle := c.Min.X, x(v), y(float64(i))+b.shift
		low, high := middle-b.width/2, middle+b.width/2
		c.FillPolygon(b.color, []vg.Point{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
		c.FillText(b.label, vg.Point{X: to + 3, Y: middle}, count(v))
	}
}

// draw writes the picture; a chart without figures is left out.
func (ch *chart) draw(file string, all []cell) error {
	names, values := ch.figures(all)
	if len(names) == 0 {
		return nil
	}
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.Title.Text = ch.title
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Min, p.X.Max = decades(values)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5
	p.Y.Label.Text = " " // room for long names
	p.Legend.XOffs, p.Legend.Padding = -12, 2
	const width = vg.Length(8)
	label := p.X.Tick.Label
	label.Font.Size, label.XAlign, label.YAlign = 7, text.XLeft, text.YCenter
	for i, row := range ch.rows {
		shift := width * vg.Length(float64(len(ch.rows)-1)/2-float64(i))
		b := &bars{values[i], shift, width, barColors[i], label}
		p.Add(b)
		p.Legend.Add(row, swatch{barColors[i]})
	}
	height := vg.Length(len(names))*(width*vg.Length(len(ch.rows))+10) + 70
	return save(p, 720, height, file)
}

// save writes the picture with fonts that a browser has.
func save(p *plot.Plot, width, height vg.Length, file string) error {
	w, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := w.WriteTo(&svg); err != nil {
		return err
	}
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,sans-serif"))
	return os.WriteFile(file, text, 0o644)
}

// swatch is a color in the legend.
type swatch struct{ color color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Min.X, Y: c.Max.Y}})
}

// figures returns the peers that have any, the best of the last row at the end,
// which is on top, and their figures by row.
func (ch *chart) figures(all []cell) (names []string, values [][]float64) {
	figure := map[[2]string]float64{}
	for _, row := range slices.Backward(ch.rows) {
		for _, c := range all {
			if c.row.name != row || !c.measured() {
				continue
			}
			figure[[2]string{row, c.peer}] = c.value.median
			if !slices.Contains(names, c.peer) {
				names = append(names, c.peer)
			}
		}
	}
	slices.Reverse(names)
	for _, row := range ch.rows {
		list := make([]float64, len(names))
		for i, name := range names {
			list[i] = figure[[2]string{row, name}]
		}
		values = append(values, list)
	}
	return names, values
}

// decades are the powers of ten around all figures, with room for labels.
func decades(values [][]float64) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, v := range slices.Concat(values...) {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	return math.Pow(10, math.Floor(math.Log10(low*0.8))), high * 4
}
