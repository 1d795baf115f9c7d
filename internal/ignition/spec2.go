package ignition

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	types2 "github.com/coreos/ignition/config/v2_4/types"
	report2 "github.com/coreos/ignition/config/validate/report"
)

// parseSpec2 reads spec 2.0 to 2.4 with the types of 2.4, which hold everything that the older ones do.
func parseSpec2(raw []byte, version string) (*config, error) {
	switch version {
	case "2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0":
	default:
		return nil, invalid("Ignition", fmt.Sprintf("spec version %q is not one of 2.0.0 to 2.4.0 or 3.x", version))
	}
	var parsed types2.Config
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return nil, invalid("Ignition", syntaxProblem(raw, err))
	}
	if problem := validate2(reflect.ValueOf(parsed), "$"); problem != "" {
		return nil, invalid("Ignition", problem)
	}
	c := &config{version: version, files: map[string]resource{}, units: map[string]unit{}}
	for _, f := range parsed.Storage.Files {
		if f.Filesystem != "" && f.Filesystem != "root" {
			continue
		}
		c.files[f.Path] = resource{source: f.Contents.Source, compression: f.Contents.Compression,
			hash: value(f.Contents.Verification.Hash), appended: f.Append}
	}
	for _, u := range parsed.Systemd.Units {
		converted := unit{contents: u.Contents}
		for _, d := range u.Dropins {
			converted.dropins = append(converted.dropins, dropin{d.Name, d.Contents})
		}
		c.units[u.Name] = converted
	}
	for _, a := range parsed.Ignition.Config.Append {
		c.references = append(c.references, shortened(a.Source))
	}
	if replace := parsed.Ignition.Config.Replace; replace != nil {
		c.references = append(c.references, shortened(replace.Source))
	}
	return c, nil
}

// validate2 walks the value, calls the types' own Validate and ValidateFIELD methods, and gives the first fatal finding with its
// JSON path. Ignition's own walker for spec 2 needs a JSON parser that is no longer published.
func validate2(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return validate2(v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			if problem := validate2(v.Index(i), path+"."+strconv.Itoa(i)); problem != "" {
				return problem
			}
		}
	case reflect.Struct:
		return validateStruct2(v, path)
	}
	return callValidate(v, "Validate", path)
}

func validateStruct2(v reflect.Value, path string) string {
	if problem := callValidate(v, "Validate", path); problem != "" {
		return problem
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		fieldPath := path
		if !field.Anonymous {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fieldPath = path + "." + name
			if problem := callValidate(v, "Validate"+field.Name, fieldPath); problem != "" {
				return problem
			}
		}
		if problem := validate2(v.Field(i), fieldPath); problem != "" {
			return problem
		}
	}
	return ""
}

func callValidate(v reflect.Value, method, path string) string {
	if !v.CanInterface() {
		return ""
	}
	m := v.MethodByName(method)
	if !m.IsValid() {
		return ""
	}
	check, ok := m.Interface().(func() report2.Report)
	if !ok {
		return ""
	}
	for _, e := range check().Entries {
		if e.Kind == report2.EntryError {
			return fmt.Sprintf("error at %s: %s", path, e.Message)
		}
	}
	return ""
}
