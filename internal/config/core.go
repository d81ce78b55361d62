package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Router is [router]: what concerns the machine as a whole.
type Router struct {
	Name       string `toml:"name" example:"\"attic\"" doc:"The router's name, in logs and on the console. Letters, digits and hyphens, as in a host name (RFC 1123 section 2.1)."`
	Forwarding bool   `toml:"forwarding" example:"true" doc:"Enable the kernel's IPv4 and IPv6 forwarding. With false weft does not change the sysctls."`
	Log        Log    `toml:"log" enum:"debug,info,warn,error" example:"\"info\"" doc:"The lowest level of messages to log: debug, info, warn or error."`
}

// Log is the least severe level that is logged.
type Log string

const (
	LogDebug Log = "debug"
	LogInfo  Log = "info"
	LogWarn  Log = "warn"
	LogError Log = "error"
)

// Metrics is [metrics]: the Prometheus listener.
type Metrics struct {
	// Listen is the zero AddrPort when the listener is off.
	Listen netip.AddrPort `toml:"listen" example:"\"127.0.0.1:9100\"" doc:"Address and port that Prometheus scrapes. Without it there is no listener. There is no authentication, so keep it on loopback or a management network."`
}

// CoreSections returns the sections that belong to no feature.
func CoreSections() []Section {
	return []Section{
		{
			Name:  "router",
			Doc:   "The machine as a whole.",
			New:   func(string) any { return &Router{Name: "weft", Forwarding: true, Log: LogInfo} },
			Check: func(c *Checker, _ string, s any) { checkRouter(c, s.(*Router)) },
		},
		{
			Name:  "interface",
			Named: true,
			Doc:   "One network interface that weft looks after. Other sections refer to it by NAME, which is letters, digits, `-` and `_`.",
			New:   func(name string) any { return &Interface{Device: name, Hook: HookAuto, Offloads: true} },
			Check: func(c *Checker, name string, s any) { checkInterface(c, name, s.(*Interface)) },
		},
		{
			Name:  "metrics",
			Doc:   "Counters for Prometheus.",
			New:   func(string) any { return &Metrics{} },
			Check: func(c *Checker, _ string, s any) { checkMetrics(c, s.(*Metrics)) },
		},
	}
}

// Router returns [router], with defaults where the file is silent. Like Metrics
// and Interface it wants a File that was loaded with CoreSections.
func (f *File) Router() *Router { return f.Get("router", "").(*Router) }

// Metrics returns [metrics].
func (f *File) Metrics() *Metrics { return f.Get("metrics", "").(*Metrics) }

// Interface returns [interface.NAME], nil if the file has none of that name.
func (f *File) Interface(name string) *Interface {
	i, _ := f.Get("interface", name).(*Interface)
	return i
}

func checkRouter(c *Checker, r *Router) {
	other := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	}
	if n := r.Name; n == "" || len(n) > 63 || strings.ContainsFunc(n, other) || strings.Trim(n, "-") != n {
		c.Error("name", fmt.Sprintf("%q cannot be a host name", n), "use letters, digits and inner hyphens, at most 63")
	}
}

func checkMetrics(c *Checker, m *Metrics) {
	if a := m.Listen.Addr(); a.IsValid() && !a.IsLoopback() {
		c.Warn("listen", fmt.Sprintf("every host that reaches %s can read the counters: there is no authentication", m.Listen), fmt.Sprintf(`"127.0.0.1:%d" keeps them on this machine`, m.Listen.Port()))
	}
}
