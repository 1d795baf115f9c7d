package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	ignition3 "github.com/coreos/ignition/v2/config"
	types3 "github.com/coreos/ignition/v2/config/v3_6_experimental/types"
	"github.com/coreos/vcontext/report"

	"wsu.windows/internal/reason"
)

// config is what the spec versions have in common, as far as a worker needs it.
type config struct {
	version string
	files   map[string]resource
	units   map[string]unit
	// references are the URLs of other configurations that this one only points at.
	references []string
}

type unit struct {
	contents string
	dropins  []dropin
}

type dropin struct{ name, contents string }

// resource is a file's content, still encoded.
type resource struct {
	source, compression, hash string
	// appended is true where the content is added to a file that the machine has already.
	appended bool
}

// head is what tells an Ignition from something else.
type head struct {
	Kind     string `json:"kind"`
	Ignition *struct {
		Version string `json:"version"`
	} `json:"ignition"`
}

// parseConfig finds the version and reads the Ignition with the code of that version.
func parseConfig(raw []byte) (*config, error) {
	version, err := specVersion(raw)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(version, "2.") {
		return parseSpec2(raw, version)
	}
	return parseSpec3(raw, version)
}

func specVersion(raw []byte) (string, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return "", invalid("Ignition", "it is empty")
	}
	if len(raw) > MaxSize {
		return "", invalid("Ignition", fmt.Sprintf("it has %d bytes, more than the %d that are accepted", len(raw), MaxSize))
	}
	var h head
	if err := json.Unmarshal(raw, &h); err != nil {
		return "", invalid("Ignition", syntaxProblem(raw, err))
	}
	if h.Kind == "MachineConfig" {
		return "", reason.New(reason.IgnitionInvalid, "Ignition", "it is a whole MachineConfig object",
			"Give what its spec.config holds, completed as the Machine Config Server does.")
	}
	if h.Ignition == nil || h.Ignition.Version == "" {
		return "", invalid("Ignition", "it has no field ignition.version, so it is not an Ignition")
	}
	return h.Ignition.Version, nil
}

// syntaxProblem names line and column, and calls a truncated file truncated.
func syntaxProblem(raw []byte, err error) string {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		if int(syntax.Offset) >= len(bytes.TrimRight(raw, " \t\r\n")) && strings.Contains(syntax.Error(), "unexpected end") {
			return fmt.Sprintf("it is truncated: the JSON breaks off after %d bytes", len(raw))
		}
		return fmt.Sprintf("it is not JSON: %s: %s", position(raw, syntax.Offset), syntax.Error())
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%s: field %s cannot be a JSON %s", position(raw, wrong.Offset), wrong.Field, wrong.Value)
	}
	return "it cannot be read as JSON"
}

func position(raw []byte, offset int64) string {
	before := raw[:min(max(int(offset)-1, 0), len(raw))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d column %d", line, column)
}

// parseSpec3 uses Ignition's own parser, which validates and translates every 3.x to the newest.
func parseSpec3(raw []byte, version string) (*config, error) {
	parsed, validation, err := ignition3.Parse(raw)
	if err != nil {
		if problem := firstFatal(validation); problem != "" {
			return nil, invalid("Ignition", problem)
		}
		return nil, invalid("Ignition", fmt.Sprintf("spec version %q: %s", version, err))
	}
	c := &config{version: version, files: map[string]resource{}, units: map[string]unit{}}
	for _, f := range parsed.Storage.Files {
		c.files[f.Path] = resource3(f)
	}
	for _, u := range parsed.Systemd.Units {
		converted := unit{contents: value(u.Contents)}
		for _, d := range u.Dropins {
			converted.dropins = append(converted.dropins, dropin{d.Name, value(d.Contents)})
		}
		c.units[u.Name] = converted
	}
	for _, m := range append(parsed.Ignition.Config.Merge, parsed.Ignition.Config.Replace) {
		if source := value(m.Source); source != "" {
			c.references = append(c.references, shortened(source))
		}
	}
	return c, nil
}

func resource3(f types3.File) resource {
	if f.Contents.Source == nil && len(f.Append) > 0 {
		return resource{appended: true}
	}
	return resource{
		source:      value(f.Contents.Source),
		compression: value(f.Contents.Compression),
		hash:        value(f.Contents.Verification.Hash),
	}
}

func firstFatal(r report.Report) string {
	for _, e := range r.Entries {
		if e.Kind.IsFatal() {
			return e.String()
		}
	}
	return ""
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shortened keeps a reference readable: a data URL may be long and may hold a secret.
func shortened(source string) string {
	if strings.HasPrefix(source, "data:") {
		return "a data URL"
	}
	return source
}
