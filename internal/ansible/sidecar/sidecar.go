// Package sidecar compares a module's documentation, NAME.yml beside its code, with the code, so that they never diverge.
// Tests of modules use it.
package sidecar

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/ansible"
)

// document is a sidecar as Ansible reads it; other keys are mistakes, such as a comma in unquoted YAML makes.
type document struct {
	Documentation struct {
		Module           string            `json:"module"`
		ShortDescription string            `json:"short_description"`
		Description      []string          `json:"description"`
		VersionAdded     string            `json:"version_added"`
		Author           []string          `json:"author"`
		Options          map[string]option `json:"options"`
		Attributes       map[string]any    `json:"attributes"`
		Notes            []string          `json:"notes"`
		SeeAlso          []any             `json:"seealso"`
		Requirements     []string          `json:"requirements"`
	} `json:"DOCUMENTATION"`
	Examples string           `json:"EXAMPLES"`
	Return   map[string]value `json:"RETURN"`
}

type option struct {
	Description any               `json:"description"`
	Type        string            `json:"type"`
	Elements    string            `json:"elements"`
	Required    bool              `json:"required"`
	Default     any               `json:"default"`
	Choices     []string          `json:"choices"`
	Suboptions  map[string]option `json:"suboptions"`
}

type value struct {
	Description any              `json:"description"`
	Returned    string           `json:"returned"`
	Type        string           `json:"type"`
	Elements    string           `json:"elements"`
	Contains    map[string]value `json:"contains"`
	Sample      any              `json:"sample"`
}

// common are the keys that every module's failure has.
var common = []string{"reason", "object", "remedy"}

// Problems gives every difference between the file and the module with its result (a struct, or nil for none).
func Problems(file string, module ansible.Module, result any) ([]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc document
	if err := yaml.UnmarshalStrict(content, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var c comparison
	d := doc.Documentation
	if d.Module != module.Name {
		c.add("DOCUMENTATION.module", "is %q, the module is %q", d.Module, module.Name)
	}
	if d.ShortDescription == "" || len(d.Description) == 0 || d.VersionAdded == "" || len(d.Author) == 0 {
		c.add("DOCUMENTATION", "lacks short_description, description, version_added or author")
	}
	c.options("options", d.Options, module.Options)
	fields := map[string]value{}
	for name, v := range doc.Return {
		if !slices.Contains(common, name) {
			fields[name] = v
		}
	}
	for _, name := range common {
		if _, ok := doc.Return[name]; !ok {
			c.add("RETURN."+name, "is not documented")
		}
	}
	if result != nil {
		c.values("RETURN", fields, reflect.TypeOf(result))
	}
	c.examples(doc.Examples, module)
	slices.Sort(c.problems)
	return c.problems, nil
}

type comparison struct{ problems []string }

func (c *comparison) add(path, format string, values ...any) {
	c.problems = append(c.problems, path+" "+fmt.Sprintf(format, values...))
}

func (c *comparison) options(path string, documented map[string]option, declared []ansible.Option) {
	names := map[string]bool{}
	for _, o := range declared {
		names[o.Name] = true
		doc, ok := documented[o.Name]
		if !ok {
			c.add(path+"."+o.Name, "is not documented")
			continue
		}
		c.option(path+"."+o.Name, doc, o)
	}
	for name := range documented {
		if !names[name] {
			c.add(path+"."+name, "is documented, but no argument")
		}
	}
}

func (c *comparison) option(path string, doc option, o ansible.Option) {
	if !isText(doc.Description) {
		c.add(path, "has no description")
	}
	if doc.Type != o.Type {
		c.add(path, "has type %s, documented is %q", o.Type, doc.Type)
	}
	if doc.Elements != o.Elements {
		c.add(path, "has elements %q, documented is %q", o.Elements, doc.Elements)
	}
	if doc.Required != o.Required {
		c.add(path, "required is %t, documented is %t", o.Required, doc.Required)
	}
	want := o.Default
	if o.Type == "bool" && want == "" {
		want = "false"
	}
	seen := ""
	if doc.Default != nil {
		seen = fmt.Sprint(doc.Default)
	}
	if seen != want {
		c.add(path, "has the default %q, documented is %q", want, seen)
	}
	if !slices.Equal(doc.Choices, o.Choices) {
		c.add(path, "has the choices %v, documented are %v", o.Choices, doc.Choices)
	}
	if o.Documented() {
		c.options(path, doc.Suboptions, o.Suboptions)
	}
}

func (c *comparison) values(path string, documented map[string]value, typ reflect.Type) {
	names := map[string]bool{}
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names[name] = true
		doc, ok := documented[name]
		if !ok {
			c.add(path+"."+name, "is not documented")
			continue
		}
		c.value(path+"."+name, doc, field.Type)
	}
	for name := range documented {
		if !names[name] {
			c.add(path+"."+name, "is documented, but no result")
		}
	}
}

func (c *comparison) value(path string, doc value, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if !isText(doc.Description) || (doc.Returned == "" && strings.Count(path, ".") == 1) {
		c.add(path, "has no description or returned")
	}
	want, elements, inner := resultType(typ)
	if doc.Type != want || (want == "list" && doc.Elements != elements) {
		c.add(path, "has type %s %s, documented is %q %q", want, elements, doc.Type, doc.Elements)
	}
	if inner != nil {
		c.values(path, doc.Contains, inner)
	}
}

// isText is true for a string and a list of strings: ansible-doc takes nothing else, and unquoted YAML easily is.
func isText(description any) bool {
	if list, ok := description.([]any); ok {
		return len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool { return !isText(item) })
	}
	text, ok := description.(string)
	return ok && text != ""
}

// resultType gives Ansible's words for a type, and the struct in it, if any.
func resultType(typ reflect.Type) (name, elements string, inner reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.String:
		return "str", "", nil
	case reflect.Bool:
		return "bool", "", nil
	case reflect.Float32, reflect.Float64:
		return "float", "", nil
	case reflect.Slice:
		elements, _, inner = resultType(typ.Elem())
		return "list", elements, inner
	case reflect.Map:
		_, _, inner = resultType(typ.Elem())
		return "dict", "", inner
	case reflect.Struct:
		return "dict", "", typ
	default:
		return "int", "", nil
	}
}

// examples wants tasks that call the module by its full name, with arguments that exist.
func (c *comparison) examples(text string, module ansible.Module) {
	var tasks []map[string]any
	if err := yaml.Unmarshal([]byte(text), &tasks); err != nil || len(tasks) == 0 {
		c.add("EXAMPLES", "are no list of tasks")
		return
	}
	found := false
	for i, task := range tasks {
		arguments, ok := task["wsu.windows."+module.Name].(map[string]any)
		found = found || ok
		for name := range arguments {
			if !slices.ContainsFunc(module.Options, func(o ansible.Option) bool { return o.Name == name }) {
				c.add(fmt.Sprintf("EXAMPLES[%d]", i), "uses %s, which is no argument", name)
			}
		}
		for _, o := range module.Options {
			if _, given := arguments[o.Name]; ok && o.Required && !given {
				c.add(fmt.Sprintf("EXAMPLES[%d]", i), "lacks %s", o.Name)
			}
		}
	}
	if !found {
		c.add("EXAMPLES", "do not use wsu.windows.%s", module.Name)
	}
}
