package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// object is a JSON object; encoding/json writes its keys in order.
type object map[string]any

// Schema returns the JSON Schema (draft 2020-12) of weft.toml, for editors. What
// it accepts is a superset of what Load does: relations between values are
// Load's alone.
func Schema(sections []Section) []byte {
	top := object{}
	for _, s := range sections {
		schema := tableSchema(reflect.ValueOf(s.New("NAME")).Elem(), reflect.ValueOf(s.New("OTHER")).Elem())
		schema["description"] = s.Doc
		if s.Named {
			schema = object{
				"type":                 "object",
				"description":          s.Doc,
				"minProperties":        1,
				"propertyNames":        object{"pattern": fmt.Sprintf("^[A-Za-z0-9_-]{1,%d}$", nameMax)},
				"additionalProperties": schema,
			}
		}
		top[s.Name] = schema
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "weft.toml",
		"type":                 "object",
		"properties":           top,
		"additionalProperties": false,
	})
	if err != nil {
		panic(err) // an object of strings and numbers can be written
	}
	return out.Bytes()
}

// tableSchema describes a struct. A default that differs between the two
// values depends on the section's name and is left to the description.
func tableSchema(v, other reflect.Value) object {
	properties, required := object{}, []string{}
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := fields[name]
		p := typeSchema(f.Type, f.Tag)
		p["description"] = f.Tag.Get("doc")
		value := v.FieldByIndex(f.Index)
		if text := defaultOf(value); text != "" && text == defaultOf(other.FieldByIndex(f.Index)) {
			p["default"] = json.RawMessage(text)
		}
		if f.Tag.Get("required") != "" {
			required = append(required, name)
		}
		properties[name] = p
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func typeSchema(t reflect.Type, tag reflect.StructTag) object {
	switch shapeOf(t) {
	case shapeBool:
		return object{"type": "boolean"}
	case shapeInteger:
		low, high := integerBounds(t, tag)
		return object{"type": "integer", "minimum": low, "maximum": high}
	case shapeList:
		return object{"type": "array", "items": typeSchema(t.Elem(), tag)}
	case shapeTable:
		zero := reflect.New(t).Elem()
		return tableSchema(zero, zero)
	}
	p := object{"type": "string"}
	if enum := tag.Get("enum"); enum != "" {
		p["enum"] = strings.Split(enum, ",")
	}
	if pattern := addressPattern(t, tag); pattern != "" {
		p["pattern"] = pattern
	}
	return p
}

// addressPattern is loose: it catches the wrong family and the forgotten
// length, not every wrong address.
func addressPattern(t reflect.Type, tag reflect.StructTag) string {
	digits := `[0-9A-Fa-f:.]+`
	switch {
	case ipOption(tag, "4"):
		digits = `[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+`
	case ipOption(tag, "6"):
		digits = `[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*`
	}
	switch {
	case t == typeAddr:
		return "^" + digits + "$"
	case t == typePrefix && ipOption(tag, "bare"):
		return "^" + digits + "(/[0-9]+)?$"
	case t == typePrefix:
		return "^" + digits + "/[0-9]+$"
	case t == typeAddrPort:
		return `^([0-9.]+|\[[0-9A-Fa-f:.]+\]):[0-9]+$`
	}
	return ""
}

// defaultOf writes a default as TOML, which for these values is JSON too;
// empty if there is none.
func defaultOf(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		if d == 0 {
			return ""
		}
		return fmt.Sprintf("%q", d.String())
	}
	switch shapeOf(v.Type()) {
	case shapeBool:
		return fmt.Sprint(v.Bool())
	case shapeInteger:
		return fmt.Sprint(v.Interface())
	case shapeString:
		if !v.IsZero() {
			return fmt.Sprintf("%q", fmt.Sprint(v.Interface()))
		}
	case shapeList:
		var list []string
		for i := range v.Len() {
			list = append(list, defaultOf(v.Index(i)))
		}
		if len(list) > 0 && !slices.Contains(list, "") {
			return "[" + strings.Join(list, ", ") + "]"
		}
	}
	return ""
}
