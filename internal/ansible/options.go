package ansible

import (
	"reflect"
	"strings"
)

// Option is one argument as its struct declares it, in the words of Ansible's documentation.
type Option struct {
	Name string
	// Type is str, bool, int, float, list, dict, path or raw; Elements is the type of a list's elements.
	Type     string
	Elements string
	Required bool
	Default  string
	Choices  []string
	Secret   bool
	// Suboptions are those of a dict, or of a list's dicts, with known keys.
	Suboptions []Option

	index  []int
	typ    reflect.Type
	opaque bool
}

// OptionsOf reads the arguments off a struct; see New for the tags.
func OptionsOf(args any) []Option {
	typ := reflect.TypeOf(args)
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return optionsOf(typ)
}

func optionsOf(typ reflect.Type) []Option {
	var options []Option
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			for _, o := range optionsOf(field.Type) {
				o.index = append([]int{i}, o.index...)
				options = append(options, o)
			}
			continue
		}
		if name == "" || name == "-" || !field.IsExported() {
			continue
		}
		options = append(options, optionOf(name, field, i))
	}
	return options
}

func optionOf(name string, field reflect.StructField, index int) Option {
	o := Option{
		Name:     name,
		Required: field.Tag.Get("required") == "true",
		Default:  field.Tag.Get("default"),
		Secret:   field.Tag.Get("secret") == "true" || secretName(name),
		index:    []int{index},
		typ:      field.Type,
		opaque:   field.Tag.Get("opaque") == "true",
	}
	if choices := field.Tag.Get("choices"); choices != "" {
		o.Choices = strings.Split(choices, ",")
	}
	o.Type = typeName(field.Type)
	inner := indirect(field.Type)
	if o.Type == "str" && field.Tag.Get("path") == "true" {
		o.Type = "path"
	}
	if o.Type == "list" {
		inner = indirect(inner.Elem())
		o.Elements = typeName(inner)
	}
	if inner.Kind() == reflect.Struct {
		o.Suboptions = optionsOf(inner)
	}
	return o
}

// Documented says whether the option's suboptions belong into the documentation.
func (o Option) Documented() bool { return !o.opaque }

func indirect(typ reflect.Type) reflect.Type {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ
}

func typeName(typ reflect.Type) string {
	switch indirect(typ).Kind() {
	case reflect.String:
		return "str"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "float"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "dict"
	default:
		return "raw"
	}
}
