package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// shape is what a field looks like in the file.
type shape uint8

const (
	shapeString shape = iota // also durations, addresses and enums
	shapeInteger
	shapeBool
	shapeList
	shapeTable
)

var (
	typeAddr     = reflect.TypeFor[netip.Addr]()
	typePrefix   = reflect.TypeFor[netip.Prefix]()
	typeAddrPort = reflect.TypeFor[netip.AddrPort]()
	typeDuration = reflect.TypeFor[time.Duration]()
)

// shapeOf panics for a type that no section may use: a mistake of weft's
// authors, which every test that loads anything finds.
func shapeOf(t reflect.Type) shape {
	switch t {
	case typeAddr, typePrefix, typeAddrPort, typeDuration:
		return shapeString
	}
	switch t.Kind() {
	case reflect.String:
		return shapeString
	case reflect.Bool:
		return shapeBool
	case reflect.Slice:
		return shapeList
	case reflect.Struct:
		return shapeTable
	}
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 {
		return shapeInteger
	}
	panic(fmt.Sprintf("config: a section cannot have a field of type %s", t))
}

func (s shape) kind() kind {
	return map[shape]kind{
		shapeString: kindString, shapeInteger: kindInteger, shapeBool: kindBool,
		shapeList: kindList, shapeTable: kindTable,
	}[s]
}

// words names what a type wants, as in "must be ...".
func words(t reflect.Type, tag reflect.StructTag) string {
	family := familyWords(tag)
	switch t {
	case typeAddr:
		return "an " + family + " address in quotes"
	case typePrefix:
		if ipOption(tag, "host") {
			return "an " + family + " address with its prefix length, in quotes"
		}
		return "an " + family + " prefix in quotes"
	case typeAddrPort:
		return "an address and port in quotes"
	case typeDuration:
		return "a duration in quotes"
	}
	if shapeOf(t) == shapeList {
		return "a list"
	}
	return string(shapeOf(t).kind())
}

// mismatch describes a value of the wrong TOML type.
func mismatch(path string, n *node, t reflect.Type, tag reflect.StructTag) (what, remedy string) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	assign := name + " = "
	if strings.Contains(name, "[") {
		assign = ""
	}
	what = fmt.Sprintf("is %s, must be %s", n.kind, words(t, tag))
	remedy = "like " + assign + tag.Get("example")
	if tag.Get("example") == "" || assign == "" { // the example is of the whole list
		remedy = "write " + words(t, tag)
	}
	switch s := shapeOf(t); {
	case s == shapeTable:
		remedy = "like " + assign + exampleOf(t)
	case s == shapeList && n.kind == kindString && shapeOf(t.Elem()) == shapeString:
		remedy = fmt.Sprintf("write %s[%q]", assign, n.text)
	case s == shapeList && n.kind == kindInteger && shapeOf(t.Elem()) == shapeInteger:
		remedy = fmt.Sprintf("write %s[%s]", assign, n.text)
	case s == shapeList && n.kind == kindTable && shapeOf(t.Elem()) == shapeTable:
		remedy = fmt.Sprintf("write %s[{ ... }], or [[ ]] around the heading", assign)
	case s == shapeBool && n.kind == kindString:
		remedy = fmt.Sprintf("write %s%s, without quotes", assign, boolean(n.text))
	case s == shapeBool && n.kind == kindInteger && (n.text == "0" || n.text == "1"):
		remedy = fmt.Sprintf("write %s%t", assign, n.text == "1")
	case s == shapeInteger && n.kind == kindString && isNumber(n.text):
		remedy = fmt.Sprintf("write %s%s, without quotes", assign, n.text)
	case s == shapeString && n.kind == kindList && len(n.items) == 1 && n.items[0].kind == kindString:
		remedy = fmt.Sprintf("write %s%q, without brackets", assign, n.items[0].text)
	case t.Kind() == reflect.String && n.text != "" && tag.Get("enum") == "":
		remedy = fmt.Sprintf("write %s%q", assign, n.text)
	case tag.Get("enum") != "":
		remedy = "one of " + strings.ReplaceAll(tag.Get("enum"), ",", ", ") + ", in quotes"
	}
	return what, remedy
}

// exampleOf writes a struct as an inline table of its fields' examples.
func exampleOf(t reflect.Type) string {
	var pairs []string
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("toml"); name != "" {
			pairs = append(pairs, name+" = "+f.Tag.Get("example"))
		}
	}
	return "{ " + strings.Join(pairs, ", ") + " }"
}

func isNumber(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

// boolean returns what someone meant who put it in quotes.
func boolean(text string) string {
	switch strings.ToLower(text) {
	case "yes", "on", "true", "1", "enabled":
		return "true"
	case "no", "off", "false", "0", "disabled":
		return "false"
	}
	return "true or false"
}

// addIt is the remedy for a missing key.
func addIt(name string, f reflect.StructField) string {
	if enum := f.Tag.Get("enum"); enum != "" {
		first, _, _ := strings.Cut(enum, ",")
		return fmt.Sprintf("add %s = %q", name, first)
	}
	if example := f.Tag.Get("example"); example != "" {
		return fmt.Sprintf("add it, like %s = %s", name, example)
	}
	return "add " + name + " = ..."
}

func ipOption(tag reflect.StructTag, option string) bool {
	for o := range strings.SplitSeq(tag.Get("ip"), ",") {
		if o == option {
			return true
		}
	}
	return false
}

func familyWords(tag reflect.StructTag) string {
	switch {
	case ipOption(tag, "4"):
		return "IPv4"
	case ipOption(tag, "6"):
		return "IPv6"
	}
	return "IP"
}
