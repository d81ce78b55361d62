package config

import (
	"fmt"
	"slices"
)

// Interfaces reports the names in the list key that are there twice, or that
// no [interface.NAME] has.
func (c *Checker) Interfaces(key string, names []string) {
	known := c.file.Names("interface")
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case slices.Contains(names[:i], name):
			c.Error(at, fmt.Sprintf("%q is listed twice", name), "take one of the two out")
		case !slices.Contains(known, name):
			c.Error(at, fmt.Sprintf("there is no [interface.%s]", name), Suggest(name, known))
		}
	}
}
