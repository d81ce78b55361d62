package noun

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// jsonKeys lists what encoding/json writes of a type below a path. A type within itself
// is named and not taken apart again: within are those that the path leads through.
func jsonKeys(path string, t reflect.Type, within ...reflect.Type) []string {
	text, own := reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[json.Marshaler]()
	if t.Kind() == reflect.Pointer {
		return jsonKeys(path, t.Elem(), within...)
	}
	switch {
	case t.Implements(text) || reflect.PointerTo(t).Implements(text):
		return []string{path + " string"}
	case t.Implements(own) || reflect.PointerTo(t).Implements(own):
		return []string{path + " " + t.Name()}
	}
	switch t.Kind() {
	case reflect.Struct:
		if slices.Contains(within, t) {
			return []string{path + " as above"}
		}
		return structKeys(path, t, append(slices.Clone(within), t))
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return []string{path + " base64"}
		}
		return jsonKeys(path+"[]", t.Elem(), within...)
	case reflect.Map:
		return jsonKeys(path+"{}", t.Elem(), within...)
	case reflect.Bool:
		return []string{path + " bool"}
	case reflect.String:
		return []string{path + " string"}
	case reflect.Interface:
		return []string{path + " any"}
	}
	return []string{path + " number"}
}

func structKeys(path string, t reflect.Type, within []reflect.Type) (list []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		first, _ := utf8.DecodeRuneInString(f.Name)
		switch {
		case tag == "-" || !f.Anonymous && !unicode.IsUpper(first):
			continue
		case f.Anonymous && tag == "":
			list = append(list, jsonKeys(path, f.Type, within...)...)
			continue
		case tag == "":
			tag = f.Name
		}
		key := tag
		if path != "" {
			key = path + "." + tag
		}
		keys := jsonKeys(key, f.Type, within...)
		if strings.Contains(options, "omit") {
			for i := range keys {
				keys[i] += ", or absent"
			}
		}
		list = append(list, keys...)
	}
	return list
}
