package scenario

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Keys writes what a scenario can say: sections, keys, defaults and meanings.
func Keys(out io.Writer) {
	for _, s := range Sections() {
		heading := s.Name
		if s.Named {
			heading += ".NAME"
		}
		fmt.Fprintf(out, "[%s]  # %s\n", heading, s.Doc)
		v := reflect.ValueOf(s.New("NAME")).Elem()
		for i := range v.NumField() {
			f := v.Type().Field(i)
			about := f.Tag.Get("doc")
			if enum := f.Tag.Get("enum"); enum != "" {
				about += " One of " + strings.ReplaceAll(enum, ",", ", ") + "."
			}
			if d := v.Field(i); !d.IsZero() {
				about += fmt.Sprintf(" Default: %v.", d.Interface())
			}
			if example := f.Tag.Get("example"); example != "" {
				about += " Like " + example + "."
			}
			fmt.Fprintf(out, "  %-15s %s\n", f.Tag.Get("toml"), about)
		}
		fmt.Fprintln(out)
	}
}
