package dscp

import (
	"weft/internal/config"
	"weft/internal/state"
)

// Config is [dscp.NAME].
type Config struct {
	Interfaces []string `toml:"interfaces" required:"true" example:"[\"wan\"]" doc:"The NAMEs of the interfaces on which packets with a DSCP for local use are dropped."`
}

// Section is what config.Load needs to read it.
func Section() config.Section {
	return config.Section{
		Name: "dscp", Named: true, Roles: state.RoleDscp,
		Doc: "A filter for packets whose DSCP is for local use (pool 2, RFC 2474 section 6).",
		New: func(string) any { return &Config{} },
		Check: func(c *config.Checker, _ string, s any) {
			c.Interfaces("interfaces", s.(*Config).Interfaces)
		},
	}
}

// From gives [dscp.NAME] of f.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("dscp", name).(*Config)
	return c
}
