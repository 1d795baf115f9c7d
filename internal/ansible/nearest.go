package ansible

// nearest gives the name that is at most two typing mistakes away (one for words of up to three letters), or "".
func nearest(name string, names []string) string {
	best, distance := "", max(1, min(2, len(name)/2))+1
	if len(name) > 100 {
		return ""
	}
	for _, candidate := range names {
		if d := editDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance counts insertions, deletions and replacements (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
