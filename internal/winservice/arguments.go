package winservice

import (
	"fmt"
	"slices"
	"strings"

	"wsu.windows/internal/drift"
)

// commandDrift names the arguments that differ, flag by flag; where that says nothing, or where arguments are quoted, the whole line.
func commandDrift(have, want string) []drift.Difference {
	if have == want {
		return nil
	}
	whole := []drift.Difference{{Field: "command line", Seen: shown(have), Desired: shown(want)}}
	if strings.Contains(have+want, `"`) {
		return whole
	}
	seen, desired := arguments(have), arguments(want)
	var list []drift.Difference
	for _, a := range desired {
		if value, found := valueOf(seen, a.name); !found {
			list = append(list, drift.Difference{Field: a.name, Seen: drift.Missing, Desired: shown(a.value)})
		} else if value != a.value {
			list = append(list, drift.Difference{Field: a.name, Seen: shown(value), Desired: shown(a.value)})
		}
	}
	for _, a := range seen {
		if _, found := valueOf(desired, a.name); !found {
			list = append(list, drift.Difference{Field: a.name, Seen: fmt.Sprintf("it is there (%s) and shall not be", shown(a.value))})
		}
	}
	if len(list) == 0 {
		return whole // only the order differs
	}
	return list
}

// argument is a flag with its value, or with its values where it stands there several times; or a word by its place.
type argument struct{ name, value string }

func arguments(line string) []argument {
	var list []argument
	words := 0
	for word := range strings.FieldsSeq(line) {
		flag, value, _ := strings.Cut(word, "=")
		name := "argument " + flag
		if !strings.HasPrefix(word, "-") {
			words++
			name, value = fmt.Sprintf("program %d", words), word
		}
		if i := slices.IndexFunc(list, func(a argument) bool { return a.name == name }); i >= 0 {
			list[i].value += ", " + value
			continue
		}
		list = append(list, argument{name, value})
	}
	return list
}

func valueOf(list []argument, name string) (string, bool) {
	for _, a := range list {
		if a.name == name {
			return a.value, true
		}
	}
	return "", false
}
