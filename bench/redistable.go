package main

import (
	"fmt"
	"io"
	"strings"
)

// writeRedisTable writes what -redis measured: of each row and setting, spool,
// asynq and the bare server.
func writeRedisTable(w io.Writer, a about, all []cell) {
	writeHead(w, a, "; over a unix socket", "the rates tell little; commands, scripts and CPU time, and ratios less than they, tell more")
	for _, p := range a.Peers {
		if name, setting := ofRedisName(p.Name); setting == redisSettings[0].name {
			fmt.Fprintf(w, "- %s (%s): %s.\n", name, p.Version, p.How)
		}
	}
	fmt.Fprint(w, "\n| row | setting | peer | median | spread | commands a job | scripts a job | CPU µs a job | of the server | × asynq | × bare |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	medians := map[[2]string]float64{}
	for _, c := range all {
		medians[[2]string{c.row.name, c.peer}] = c.value.median
	}
	last := ""
	for i := range all {
		for _, s := range redisSettings {
			if name := all[i].row.name; name != last {
				writeRedisRow(w, all[i:], s, medians, s.name == redisSettings[0].name)
			}
		}
		last = all[i].row.name
	}
	writeRows(w, all)
}

// writeRedisRow writes the peers of one row, the first of cells, and one setting.
func writeRedisRow(w io.Writer, cells []cell, s redisSetting, medians map[[2]string]float64, named bool) {
	row := cells[0].row
	for _, peer := range []string{"spool", "asynq", "bare"} {
		for i := range cells {
			c := &cells[i]
			if c.row.name != row.name || c.peer != redisName(peer, s) {
				continue
			}
			first := ""
			if named && peer == "spool" {
				first = row.name
			}
			of := func(other string) string {
				if other == peer {
					return ""
				}
				return row.times(c.value.median, medians[[2]string{row.name, redisName(other, s)}])
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", first, s.name, peer, strings.Join(c.redisColumns(), " | "), of("asynq"), of("bare"))
		}
	}
}

// redisColumns are the figures of a cell that no other is needed for.
func (c *cell) redisColumns() []string {
	if !c.measured() {
		return []string{"–", c.why(), "", "", "", ""}
	}
	return []string{
		count(c.value.median), count(c.value.low) + " – " + count(c.value.high),
		blank(c.commands, count), blank(c.scripts, count), blank(c.cpu, count), blank(c.server, count),
	}
}
