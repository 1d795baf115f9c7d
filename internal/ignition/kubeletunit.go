package ignition

import (
	"bufio"
	"regexp"
	"slices"
	"strings"
)

// dropinFolder is where files of the Ignition may add to the unit, beside the unit's own drop-ins.
const dropinFolder = "/etc/systemd/system/" + KubeletUnit + ".d/"

// kubeletFlags reads the flags of the kubelet's command line in kubelet.service, with the environment that the Ignition itself sets.
func kubeletFlags(c *config) (map[string]string, error) {
	parts, err := unitParts(c)
	if err != nil {
		return nil, err
	}
	var command string
	environment := map[string]string{}
	var environmentFiles []string
	for _, part := range parts {
		for _, s := range settings(part) {
			switch s.key {
			case "ExecStart":
				command = s.value // an empty one resets, a later one replaces: Type=notify has exactly one
			case "Environment":
				addEnvironment(environment, words(s.value))
			case "EnvironmentFile":
				environmentFiles = append(environmentFiles, strings.TrimPrefix(s.value, "-"))
			}
		}
	}
	if err := readEnvironmentFiles(c, environment, environmentFiles); err != nil {
		return nil, err
	}
	args := words(command)
	if len(args) == 0 {
		return nil, invalid(KubeletUnit, "it has no ExecStart")
	}
	if !slices.ContainsFunc(args, isKubelet) {
		return nil, invalid(KubeletUnit, "its ExecStart does not start a kubelet")
	}
	return flagsOf(expand(args, environment)), nil
}

func isKubelet(arg string) bool {
	return arg == "kubelet" || strings.HasSuffix(arg, "/kubelet") || strings.HasSuffix(arg, "/hyperkube")
}

// unitParts gives the unit and then its drop-ins by name, from the unit and from files alike, as systemd reads them.
func unitParts(c *config) ([]string, error) {
	kubelet := c.units[KubeletUnit]
	dropins := map[string]string{}
	for _, d := range kubelet.dropins {
		dropins[d.name] = d.contents
	}
	for path := range c.files {
		name, ok := strings.CutPrefix(path, dropinFolder)
		if !ok || !strings.HasSuffix(name, ".conf") {
			continue
		}
		content, _, err := c.read(path)
		if err != nil {
			return nil, err
		}
		dropins[name] = string(content)
	}
	parts := []string{kubelet.contents}
	for _, name := range sortedKeys(dropins) {
		parts = append(parts, dropins[name])
	}
	return parts, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type setting struct{ key, value string }

// settings reads the [Service] section: continuation lines are joined, comments are skipped, also between continued lines.
func settings(contents string) []setting {
	var out []setting
	section, pending := "", ""
	scanner := bufio.NewScanner(strings.NewReader(contents))
	scanner.Buffer(nil, MaxFileSize)
	flush := func() {
		line := strings.TrimSpace(pending)
		pending = ""
		if strings.HasPrefix(line, "[") {
			section = line
			return
		}
		if key, val, ok := strings.Cut(line, "="); ok && section == "[Service]" {
			out = append(out, setting{strings.TrimSpace(key), strings.TrimSpace(val)})
		}
	}
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if continued, ok := strings.CutSuffix(line, `\`); ok {
			pending += continued + " "
			continue
		}
		pending += line
		flush()
	}
	flush()
	return out
}

// words splits as systemd does: at spaces, with single or double quotes around what belongs together.
func words(line string) []string {
	var out []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		out = append(out, word.String())
	}
	return out
}

func addEnvironment(environment map[string]string, assignments []string) {
	for _, a := range assignments {
		if key, val, ok := strings.Cut(a, "="); ok {
			environment[key] = val
		}
	}
}

// readEnvironmentFiles reads those that the Ignition itself brings. They win over Environment=, as systemd.exec(5) says.
func readEnvironmentFiles(c *config, environment map[string]string, paths []string) error {
	for _, path := range paths {
		content, found, err := c.read(path)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			if key, val, ok := strings.Cut(line, "="); ok {
				environment[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(val), `"'`)
			}
		}
	}
	return nil
}

var variable = regexp.MustCompile(`\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

// expand puts the values of variables in, and drops what stays unknown: in a comma-separated value its elements, else the flag.
func expand(args []string, environment map[string]string) []string {
	var out []string
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "$"); ok && variable.FindString(arg) == arg && !strings.HasPrefix(name, "{") {
			out = append(out, words(environment[name])...) // $NAME as a word of its own becomes words
			continue
		}
		if expanded, ok := expandElements(arg, environment); ok {
			out = append(out, expanded)
		}
	}
	return out
}

func expandElements(arg string, environment map[string]string) (string, bool) {
	if !variable.MatchString(arg) {
		return arg, true
	}
	flag, val, isFlag := strings.Cut(arg, "=")
	if !isFlag {
		val = arg
	}
	var kept []string
	for element := range strings.SplitSeq(val, ",") {
		if expanded, ok := expandVariables(element, environment); ok {
			kept = append(kept, expanded)
		}
	}
	if len(kept) == 0 {
		return "", false
	}
	if !isFlag {
		return strings.Join(kept, ","), true
	}
	return flag + "=" + strings.Join(kept, ","), true
}

func expandVariables(text string, environment map[string]string) (string, bool) {
	known := true
	expanded := variable.ReplaceAllStringFunc(text, func(match string) string {
		val, ok := environment[strings.Trim(match, "${}")]
		known = known && ok
		return val
	})
	return expanded, known
}

// flagsOf takes --name=value, --name value and --name (a boolean); what is no flag, the program and its wrapper, is skipped.
func flagsOf(args []string) map[string]string {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		if !isFlag || name == "" {
			continue
		}
		if key, val, ok := strings.Cut(name, "="); ok {
			flags[key] = val
			continue
		}
		flags[name] = "true"
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			flags[name] = args[i]
		}
	}
	return flags
}
