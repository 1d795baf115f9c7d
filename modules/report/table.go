package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// width is what fits a terminal, a log viewer and a mail.
	width = 100
	// gap separates columns.
	gap = "  "
	// widest bounds one cell; names are cut in the middle of the table, never in the JSON.
	widest = 30
)

// table shows the hosts in plain ASCII, at most width columns wide: the hosts, the seconds of each phase, and what failed.
func table(title string, hosts []Host, order []string) string {
	var text strings.Builder
	text.WriteString(wrap(plain(title)+": "+countText(hosts), ""))
	rows := [][]string{{"HOST", "NODE", "RELEASE", "KUBELET", "RESULT", "SECONDS"}}
	for _, h := range hosts {
		rows = append(rows, []string{h.Host, dash(h.Node), dash(h.Release), dash(h.KubeletVersion), h.Result, seconds(sum(h.Phases))})
	}
	text.WriteString(grid(rows))
	for _, chunk := range phaseTables(hosts, order) {
		text.WriteString("\nSeconds by phase\n" + grid(chunk))
	}
	text.WriteString(details(hosts))
	return text.String()
}

// countText is "3 hosts: 2 joined, 1 failed".
func countText(hosts []Host) string {
	counts := map[string]int{}
	for _, h := range hosts {
		counts[h.Result]++
	}
	var parts []string
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[result], result))
	}
	word := "hosts"
	if len(hosts) == 1 {
		word = "host"
	}
	return fmt.Sprintf("%d %s: %s", len(hosts), word, strings.Join(parts, ", "))
}

// phaseTables gives one table, or several where the phases do not fit side by side.
func phaseTables(hosts []Host, order []string) [][][]string {
	known := map[string]bool{}
	for _, h := range hosts {
		for phase := range h.Phases {
			known[phase] = true
		}
	}
	var phases []string
	for _, phase := range order {
		if known[phase] {
			phases = append(phases, phase)
			delete(known, phase)
		}
	}
	phases = append(phases, slices.Sorted(maps.Keys(known))...)
	hostWidth := len("HOST")
	for _, h := range hosts {
		hostWidth = max(hostWidth, min(len(plain(h.Host)), widest))
	}
	var tables [][][]string
	for len(phases) > 0 {
		count, used := 0, hostWidth
		for count < len(phases) {
			used += len(gap) + max(min(len(plain(phases[count])), widest), 7)
			if used > width && count > 0 {
				break
			}
			count++
		}
		tables = append(tables, phaseRows(hosts, phases[:count]))
		phases = phases[count:]
	}
	return tables
}

func phaseRows(hosts []Host, phases []string) [][]string {
	rows := [][]string{append([]string{"HOST"}, phases...)}
	for _, h := range hosts {
		row := []string{h.Host}
		for _, phase := range phases {
			took, ok := h.Phases[phase]
			if !ok {
				row = append(row, "-")
				continue
			}
			row = append(row, seconds(took))
		}
		rows = append(rows, row)
	}
	return rows
}

// details says what failed, how hosts differ, and what to know of the others.
func details(hosts []Host) string {
	var text strings.Builder
	for _, h := range hosts {
		said := h.Note != "" || h.Msg != "" || len(h.Differences) > 0
		if !said && h.Archive == "" {
			continue
		}
		heading := plain(h.Host)
		if h.Msg != "" || h.Result == "failed" {
			heading += " " + heads(h)
		}
		text.WriteString("\n" + wrap(heading, "") + wrap(plain(h.Msg), "    ") + wrap(plain(h.Note), "    "))
		for _, difference := range h.Differences {
			text.WriteString(wrap("- "+plain(difference), "    "))
		}
		if h.Archive != "" {
			text.WriteString(wrap("support archive: "+plain(h.Archive), "    "))
		}
	}
	return text.String()
}

// heads is "failed in phase apply (kubelet_unhealthy)", or "rolled back, ..." where the failure was undone.
func heads(h Host) string {
	text := "failed"
	if h.Result != "failed" {
		text = plain(h.Result) + ", failed"
	}
	if h.FailedPhase != "" {
		text += " in phase " + plain(h.FailedPhase)
	}
	if h.Reason != "" {
		text += " (" + plain(h.Reason) + ")"
	}
	return text
}

// grid aligns columns. The first ones give way where the whole would be too wide.
func grid(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = cut(plain(row[i]), widest)
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	for total(widths) > width {
		broadest := slices.Index(widths, slices.Max(widths))
		widths[broadest]--
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s%s", widths[i], cut(cell, widths[i]), gap)
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

func total(widths []int) int {
	sum := (len(widths) - 1) * len(gap)
	for _, w := range widths {
		sum += w
	}
	return sum
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if limit <= 1 {
		return text[:limit]
	}
	return text[:limit-1] + "~"
}

// plain leaves printable ASCII only: texts may come from a host, and a terminal obeys escape sequences.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}

// wrap breaks at blanks; a word that is too long is broken too.
func wrap(text, indent string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for len(indent)+len(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			lines, word = append(lines, word[:width-len(indent)]), word[width-len(indent):]
		}
		if line != "" && len(indent)+len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	var wrapped strings.Builder
	for _, l := range lines {
		wrapped.WriteString(indent + l + "\n")
	}
	return wrapped.String()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func sum(phases map[string]float64) float64 {
	var all float64
	for _, name := range slices.Sorted(maps.Keys(phases)) { // floats add up differently in another order
		all += phases[name]
	}
	return all
}

func seconds(took float64) string { return strconv.FormatFloat(took, 'f', 1, 64) }
