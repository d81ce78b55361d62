package lab

import (
	"fmt"
	"strings"
)

func (s MakeSpace) String() string { return fmt.Sprintf("%s: network namespace %s", s.Node, s.Space) }

func (s MakeSwitch) String() string { return s.Node + ": a switch" }

func (s MakeCable) String() string {
	text := fmt.Sprintf("cable %s -- %s, MTU %d", s.Ends[0], s.Ends[1], s.MTU)
	if s.Rate > 0 {
		text += ", " + s.Rate.String()
	}
	return text
}

func (p Plug) String() string {
	words := []string{p.Node + ":" + p.Device}
	if p.MAC != nil {
		words = append(words, p.MAC.String())
	}
	for _, a := range p.Addresses {
		words = append(words, a.String())
	}
	return strings.Join(words, " ")
}

func (s MakeTap) String() string {
	return fmt.Sprintf("%s: tap %s bridged to %s by %s, MTU %d", s.Node, s.Tap, s.Device, s.Bridge, s.MTU)
}

func (s StartGuest) String() string {
	text := fmt.Sprintf("%s: boot a %s guest", s.Node.Name, s.Node.Kind)
	if s.Node.Root != "" {
		text += " with the root of this " + s.Node.Root
	}
	if s.Node.Init != "" {
		text += " and " + s.Node.Init
	}
	for _, n := range s.NICs {
		text += fmt.Sprintf(", %s on %s", n.Plug, n.Tap)
	}
	return text
}

func (s GuestStage) String() string { return s.Node + ": " + s.Stage }

func (s StartImpairment) String() string {
	return fmt.Sprintf("%s: boot a guest between %s and %s with delay %s, jitter %s, loss %g%%, rate %s",
		s.Node, s.Taps[0], s.Taps[1], s.Link.Delay, s.Link.Jitter, s.Link.Loss, s.Link.Rate)
}

func (s SetSysctls) String() string {
	words := make([]string, len(s.Values))
	for i, v := range s.Values {
		words[i] = v[0] + " = " + v[1]
	}
	return fmt.Sprintf("%s: sysctl %s", s.Node, strings.Join(words, ", "))
}

func (s AddRoutes) String() string {
	words := make([]string, len(s.Routes))
	for i, r := range s.Routes {
		words[i] = r.String()
	}
	return fmt.Sprintf("%s: route %s", s.Node, strings.Join(words, ", "))
}

func (r Route) String() string {
	text := r.To.String()
	if r.Via.IsValid() {
		text += " via " + r.Via.String()
	}
	if r.Device != "" {
		text += " on " + r.Device
	}
	if r.MTU != 0 {
		text += fmt.Sprintf(" MTU %d", r.MTU)
	}
	return text
}

func (s WriteFile) String() string {
	return fmt.Sprintf("%s: file %s, %d bytes", s.Node, s.Name, len(s.Text))
}

func (s StartWeft) String() string { return s.Node + ": weft run weft.toml, until it is ready" }

func (s StartProcess) String() string {
	verb := "start"
	if s.Process.Once {
		verb = "run"
	}
	return fmt.Sprintf("%s: %s %s (%s)", s.Node, verb, s.Process.Name, strings.Join(s.Process.Argv, " "))
}

func (s AwaitLinks) String() string {
	return fmt.Sprintf("%s: wait for %s to be up", s.Node, strings.Join(s.Devices, ", "))
}
