package nodespec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/reason"
)

// MaxSize bounds a NodeSpec document, in bytes. Real ones have a few kilobytes.
const MaxSize = 1 << 20

// Decode reads a NodeSpec in YAML or JSON, fills the defaults in and validates it. Unknown and repeated fields are errors. Every
// error is a reason.Error with the code SpecInvalid whose object is the field, as kubelet.version.
func Decode(raw []byte) (*NodeSpec, error) {
	spec, err := DecodeApplied(raw)
	if err != nil {
		return nil, err
	}
	if err := Validate(spec); err != nil {
		return nil, err
	}
	return spec, nil
}

// DecodeApplied is Decode of a specification that was valid when it was applied; today's rules may be others.
func DecodeApplied(raw []byte) (*NodeSpec, error) {
	if len(raw) > MaxSize {
		return nil, invalid("NodeSpec", fmt.Sprintf("it has more than %d bytes", MaxSize))
	}
	document, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, invalid("NodeSpec", "it is neither YAML nor JSON: "+firstLine(err))
	}
	if field := unknownField(document, reflect.TypeFor[NodeSpec]()); field != "" {
		return nil, invalid(field, "there is no such field")
	}
	spec := &NodeSpec{}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(spec); err != nil {
		return nil, decodeError(err)
	}
	Default(spec)
	return spec, nil
}

// Read decodes a NodeSpec from a stream and never reads more than MaxSize.
func Read(r io.Reader) (*NodeSpec, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, reason.Wrap(reason.SpecInvalid, "NodeSpec", err, "")
	}
	return Decode(raw)
}

func invalid(field, problem string) *reason.Error {
	return reason.New(reason.SpecInvalid, field, problem, "")
}

func decodeError(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		field := wrongType.Field
		if field == "" {
			field = "NodeSpec"
		}
		return invalid(field, fmt.Sprintf("it is a %s, and has to be a %s", wrongType.Value, wrongType.Type))
	}
	return invalid("NodeSpec", firstLine(err))
}

// firstLine keeps messages of the YAML reader to one line.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// unknownField gives the path of the first field that the type does not have. encoding/json gives only its last element, and
// takes a name in another case for a known one.
func unknownField(document []byte, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return unknownInObject(document, t)
	case reflect.Slice:
		var elements []json.RawMessage
		if json.Unmarshal(document, &elements) != nil {
			return "" // a wrong type is the decoder's to report
		}
		for i, element := range elements {
			if field := unknownField(element, t.Elem()); field != "" {
				return fmt.Sprintf("[%d].%s", i, field)
			}
		}
	}
	return ""
}

func unknownInObject(document []byte, t reflect.Type) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(document, &object) != nil {
		return ""
	}
	known := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = field.Type
	}
	for _, name := range sortedKeys(object) {
		fieldType, ok := known[name]
		if !ok {
			return name
		}
		if field := unknownField(object[name], fieldType); field != "" {
			return strings.ReplaceAll(name+"."+field, ".[", "[")
		}
	}
	return ""
}
