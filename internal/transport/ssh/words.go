package ssh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// shellWords splits as a POSIX shell and Ansible's shlex do: quotes group, a backslash takes the next character for itself.
func shellWords(text string) ([]string, error) { return split(text, false) }

// configWords splits as OpenSSH does in ~/.ssh/config and behind -o: a backslash stands for itself, unless a quote, a backslash or a space
// comes after it (DOMAIN\user is a user), and a word that begins with # ends the line.
func configWords(text string) ([]string, error) { return split(text, true) }

func split(text string, config bool) ([]string, error) {
	var found []string
	var word strings.Builder
	begun, quote := false, rune(0)
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case r == '\\' && i+1 < len(runes) && escapes(runes[i+1], quote, config):
			i++
			word.WriteRune(runes[i])
			begun = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			if begun {
				found = append(found, word.String())
				word.Reset()
			}
			begun = false
		case config && quote == 0 && r == '#' && !begun:
			return found, nil
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		found = append(found, word.String())
	}
	return found, nil
}

func escapes(next, quote rune, config bool) bool {
	switch {
	case config:
		return strings.ContainsRune(`'"\`, next) || quote == 0 && next == ' '
	case quote == 0:
		return true
	}
	return quote == '"' && strings.ContainsRune(`"\`, next)
}

// quoted is what configWords makes the text of.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// keyword cuts a line of ~/.ssh/config, or the value of -o, into its lower-case keyword and the rest.
func keyword(line string) (name, rest string) {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, "= \t")
	if end < 0 {
		return strings.ToLower(line), ""
	}
	name, rest = strings.ToLower(line[:end]), strings.TrimLeft(line[end:], " \t")
	return name, strings.TrimSpace(strings.TrimPrefix(rest, "="))
}

// expand replaces OpenSSH's tokens (%h and the like).
func expand(text string, tokens map[byte]string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.WriteByte(text[i])
			continue
		}
		i++
		if i == len(text) {
			return "", fmt.Errorf("%q ends with a %%", text)
		}
		value, known := tokens[text[i]]
		if text[i] == '%' {
			value, known = "%", true
		}
		if !known {
			return "", fmt.Errorf("the token %%%c in %q is not supported", text[i], text)
		}
		out.WriteString(value)
	}
	return out.String(), nil
}

// expandPath does what expand does, and knows ~ and ${VARIABLE} besides.
func expandPath(path string, tokens map[byte]string) (string, error) {
	path, err := expand(path, tokens)
	for err == nil {
		before, rest, found := strings.Cut(path, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			break
		}
		value, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Errorf("the environment has no %s, which %q needs", name, path)
		}
		path = before + value + after
		if strings.Contains(value, "${") {
			return "", fmt.Errorf("the value of %s holds another variable", name)
		}
	}
	return home(path), err
}

// home puts the home folder in the place of ~/.
func home(path string) string {
	if rest, found := strings.CutPrefix(path, "~/"); found {
		if folder, err := os.UserHomeDir(); err == nil {
			return filepath.Join(folder, rest)
		}
	}
	return path
}

// matches compares a text with a pattern of * and ?, which have no regard for dots or slashes.
func matches(pattern, text string) bool {
	star, mark, t := -1, 0, 0
	p := 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchesAny compares with a list, in which one that begins with ! and matches outweighs all others.
func matchesAny(patterns []string, text string) bool {
	found := false
	for _, pattern := range patterns {
		bare, not := strings.CutPrefix(pattern, "!")
		if !matches(bare, text) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}
