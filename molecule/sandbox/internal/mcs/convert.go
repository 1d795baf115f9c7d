package mcs

import (
	"encoding/json"
	"fmt"

	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/vcontext/report"
)

// convert rewrites an Ignition 3.5.0 document for the version asked for. Each 3.x is the one above it less some fields: a document that
// uses none of those needs only another version number, and Ignition's own parser of that version says whether it does.
func convert(native []byte, version string) ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(native, &document); err != nil {
		return nil, fmt.Errorf("ignition: %w", err)
	}
	header, ok := document["ignition"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("ignition: the document has no ignition section")
	}
	header["version"] = version
	if version == specTwo {
		return json.Marshal(toSpecTwo(document))
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("ignition: %w", err)
	}
	return parseAs(raw, version)
}

// parseAs returns the document as the types of that version write it, or the parser's complaint.
func parseAs(raw []byte, version string) ([]byte, error) {
	switch version {
	case "3.1.0":
		return through(v31.Parse, raw, version)
	case "3.2.0":
		return through(v32.Parse, raw, version)
	case "3.3.0":
		return through(v33.Parse, raw, version)
	case "3.4.0":
		return through(v34.Parse, raw, version)
	case "3.5.0":
		return through(v35.Parse, raw, version)
	}
	return nil, fmt.Errorf("ignition: no conversion to %s", version)
}

func through[T any](parse func([]byte) (T, report.Report, error), raw []byte, version string) ([]byte, error) {
	config, problems, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("ignition %s: %w: %s", version, err, problems.String())
	}
	return json.Marshal(config)
}

// toSpecTwo does what the converter of the Machine Config Server does for the parts that MachineConfigs use: in spec 2 a file
// names its file system, and kernel arguments do not exist.
func toSpecTwo(document map[string]any) map[string]any {
	delete(document, "kernelArguments")
	if header, ok := document["ignition"].(map[string]any); ok {
		for name := range header {
			if name != "version" {
				delete(header, name)
			}
		}
	}
	if storage, ok := document["storage"].(map[string]any); ok {
		files, _ := storage["files"].([]any)
		for _, file := range files {
			if fields, ok := file.(map[string]any); ok {
				fields["filesystem"] = "root"
			}
		}
	}
	pruned, _ := prune(document).(map[string]any)
	return pruned
}

// prune drops empty objects, lists and nulls, and the empty compression: spec 2's types leave those out.
func prune(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			if child = prune(child); child == nil || name == "compression" && child == "" {
				delete(value, name)
				continue
			}
			value[name] = prune(value[name])
		}
		if len(value) == 0 {
			return nil
		}
	case []any:
		if len(value) == 0 {
			return nil
		}
		for i := range value {
			value[i] = prune(value[i])
		}
	}
	return value
}
