package ansible

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"wsu.windows/internal/reason"
)

// Decode fills args, a pointer to a struct, from the arguments as Ansible hands them over. Unknown arguments and values
// of a wrong type are errors (reason argument_invalid) that name the argument's path; but what Ansible makes of YAML and of
// templates is taken for what it means: "yes" for true, "5" for 5, 5 for "5", "a,b" for a list, null for absent.
func Decode(raw map[string]any, args any) error {
	target := reflect.ValueOf(args).Elem()
	return decodeStruct("", raw, target, optionsOf(target.Type()))
}

func invalid(path, format string, values ...any) error {
	return reason.New(reason.ArgumentInvalid, "argument "+path, fmt.Sprintf(format, values...), "Correct the argument "+path+".")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func decodeStruct(path string, raw map[string]any, target reflect.Value, options []Option) error {
	names := make([]string, 0, len(options))
	for _, o := range options {
		names = append(names, o.Name)
	}
	if err := rejectUnknown(path, raw, names); err != nil {
		return err
	}
	for _, o := range options {
		if err := decodeOption(join(path, o.Name), raw[o.Name], target.FieldByIndex(o.index), o); err != nil {
			return err
		}
	}
	return nil
}

func rejectUnknown(path string, raw map[string]any, names []string) error {
	given := make([]string, 0, len(raw))
	for name := range raw {
		given = append(given, name)
	}
	slices.Sort(given)
	for _, name := range given {
		if slices.Contains(names, name) {
			continue
		}
		full := clip(join(path, name))
		if near := nearest(name, names); near != "" {
			return reason.New(reason.ArgumentInvalid, "argument "+full, "there is no such argument", "Did you mean "+join(path, near)+"?")
		}
		return reason.New(reason.ArgumentInvalid, "argument "+full, "there is no such argument", "The arguments are "+strings.Join(names, ", ")+".")
	}
	return nil
}

func decodeOption(path string, value any, target reflect.Value, o Option) error {
	if (value == nil || value == "") && o.Default != "" {
		value = o.Default
	}
	isText := o.Type == "str" || o.Type == "path"
	if value == nil || (value == "" && !isText) {
		if o.Required {
			return reason.New(reason.ArgumentInvalid, "argument "+path, "it is missing", "Give the argument "+path+".")
		}
		if target.Kind() == reflect.Struct { // defaults of its parts
			return decodeStruct(path, nil, target, withoutRequired(o.Suboptions))
		}
		return nil
	}
	if err := decodeValue(path, value, target, o.Secret); err != nil {
		return err
	}
	if o.Type == "path" {
		expanded, err := expandPath(target.String())
		if err != nil {
			return invalid(path, "%v", err)
		}
		target.SetString(expanded)
	}
	if o.Required && (isText && target.IsZero() || o.Type == "list" && target.Len() == 0) {
		return reason.New(reason.ArgumentInvalid, "argument "+path, "it is empty", "Give the argument "+path+" a value.")
	}
	return checkChoices(path, target, o)
}

func withoutRequired(options []Option) []Option {
	relaxed := slices.Clone(options)
	for i := range relaxed {
		relaxed[i].Required = false
		relaxed[i].Suboptions = withoutRequired(relaxed[i].Suboptions)
	}
	return relaxed
}

func checkChoices(path string, target reflect.Value, o Option) error {
	if len(o.Choices) == 0 || target.Kind() != reflect.String {
		return nil
	}
	if value := target.String(); !slices.Contains(o.Choices, value) {
		return reason.New(reason.ArgumentInvalid, fmt.Sprintf("argument %s=%q", path, clip(value)), "this is none of its values",
			"Use one of "+strings.Join(o.Choices, ", ")+".")
	}
	return nil
}

// expandPath makes of a path what a shell would: ~ and variables.
func expandPath(path string) (string, error) {
	path = os.ExpandEnv(path)
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%s: the home directory is not known: %w", path, err)
	}
	return home + path[1:], nil // as it is: a slash at the end says that it is a folder
}

func decodeValue(path string, value any, target reflect.Value, secret bool) error {
	switch target.Kind() {
	case reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		return decodeValue(path, value, target.Elem(), secret)
	case reflect.Interface:
		target.Set(reflect.ValueOf(value))
		return nil
	case reflect.String:
		return decodeString(path, value, target, secret)
	case reflect.Bool:
		return decodeBool(path, value, target, secret)
	case reflect.Slice:
		return decodeSlice(path, value, target, secret)
	case reflect.Map:
		return decodeMap(path, value, target, secret)
	case reflect.Struct:
		fields, ok := asMap(value)
		if !ok {
			return mistyped(path, "a dictionary", value, secret)
		}
		return decodeStruct(path, fields, target, optionsOf(target.Type()))
	case reflect.Float32, reflect.Float64:
		number, err := strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(value)), target.Type().Bits())
		if err != nil {
			return mistyped(path, "a number", value, secret)
		}
		target.SetFloat(number)
		return nil
	default:
		return decodeInt(path, value, target, secret)
	}
}

func decodeString(path string, value any, target reflect.Value, secret bool) error {
	switch v := value.(type) {
	case string:
		target.SetString(v)
	case json.Number:
		target.SetString(v.String())
	case bool:
		target.SetString(strconv.FormatBool(v))
	default:
		return mistyped(path, "a string", value, secret)
	}
	return nil
}

// decodeBool takes the words that Ansible's own boolean() takes.
func decodeBool(path string, value any, target reflect.Value, secret bool) error {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(value))) {
	case "true", "yes", "on", "y", "t", "1":
		target.SetBool(true)
	case "false", "no", "off", "n", "f", "0":
		target.SetBool(false)
	default:
		return mistyped(path, "true or false", value, secret)
	}
	return nil
}

func decodeInt(path string, value any, target reflect.Value, secret bool) error {
	text := ""
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	switch target.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if number, err := strconv.ParseInt(text, 10, target.Type().Bits()); err == nil {
			target.SetInt(number)
			return nil
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if number, err := strconv.ParseUint(text, 10, target.Type().Bits()); err == nil {
			target.SetUint(number)
			return nil
		}
	}
	return mistyped(path, "a whole number", value, secret)
}

func decodeSlice(path string, value any, target reflect.Value, secret bool) error {
	var items []any
	switch v := value.(type) {
	case []any:
		items = v
	case string: // Ansible's list type splits a string at commas
		for item := range strings.SplitSeq(v, ",") {
			items = append(items, strings.TrimSpace(item))
		}
	case json.Number, bool:
		items = []any{v}
	default:
		return mistyped(path, "a list", value, secret)
	}
	list := reflect.MakeSlice(target.Type(), len(items), len(items))
	for i, item := range items {
		if item == nil {
			return invalid(fmt.Sprintf("%s[%d]", path, i), "it is null")
		}
		if err := decodeValue(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i), secret); err != nil {
			return err
		}
	}
	target.Set(list)
	return nil
}

func decodeMap(path string, value any, target reflect.Value, secret bool) error {
	fields, ok := asMap(value)
	if !ok || target.Type().Key().Kind() != reflect.String {
		return mistyped(path, "a dictionary", value, secret)
	}
	dict := reflect.MakeMapWithSize(target.Type(), len(fields))
	for name, item := range fields {
		element := reflect.New(target.Type().Elem()).Elem()
		if item != nil {
			if err := decodeValue(join(path, clip(name)), item, element, secret || secretName(name)); err != nil {
				return err
			}
		}
		dict.SetMapIndex(reflect.ValueOf(name).Convert(target.Type().Key()), element)
	}
	target.Set(dict)
	return nil
}

// asMap also takes a dictionary that came as JSON text, as command lines and templates give it.
func asMap(value any) (map[string]any, bool) {
	if text, ok := value.(string); ok && strings.HasPrefix(strings.TrimSpace(text), "{") {
		if fields, err := parseObject([]byte(text)); err == nil {
			return fields, true
		}
	}
	fields, ok := value.(map[string]any)
	return fields, ok
}

func mistyped(path, want string, value any, secret bool) error {
	seen := "something else"
	switch v := value.(type) {
	case string:
		seen = strconv.Quote(clip(v))
	case json.Number:
		seen = clip(v.String())
	case bool:
		seen = strconv.FormatBool(v)
	case []any:
		seen = "a list"
	case map[string]any:
		seen = "a dictionary"
	}
	if secret {
		seen = "something else"
	}
	return invalid(path, "it must be %s, not %s", want, seen)
}

// clip keeps a message readable where the user's value is not.
func clip(text string) string {
	if len(text) <= 80 {
		return text
	}
	return strings.ToValidUTF8(text[:80], "") + "..."
}
