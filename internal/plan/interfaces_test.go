package plan

import (
	"slices"
	"strings"
	"testing"

	"weft/internal/state"
)

// links are physical devices with XDP, unless a word in kind says otherwise:
// "veth" and so on, "plain" for a physical one whose driver has none.
func links(devices ...string) state.Facts {
	var facts state.Facts
	for i, d := range devices {
		d, master, _ := strings.Cut(d, " in ")
		name, kind, _ := strings.Cut(d, " ")
		l := state.LinkFact{Name: name, Index: i + 2, Kind: kind, MAC: [6]byte{2, 0, 0, 0, 0, byte(i)}, XDP: true, XDPTarget: true, Master: master}
		switch kind {
		case "plain":
			l.Kind, l.XDP = "", false
		case "bridge", "vlan", "dsa":
			l.XDP, l.XDPTarget = false, false
		}
		facts.Links = append(facts.Links, l)
	}
	return facts
}

func need(device string, hook state.HookChoice, roles state.Roles, change func(*state.Need)) state.Part {
	n := state.Need{Interface: device, Device: device, Hook: hook, Roles: roles, Taken: state.TakenBelow, XDP: state.Required, Path: "feature.interfaces[0]"}
	if change != nil {
		change(&n)
	}
	return state.Part{Feature: "feature", Needs: []state.Need{n}}
}

func together(n *state.Need) { n.Together = true }

// guarding is a part as of a guard on a device.
func guarding(device string, hook state.HookChoice) state.Part {
	part := need(device, hook, state.RoleGuarded, together)
	part.Objects = state.Desired{state.Guard{Device: device}}
	return part
}

// onXDP lists the devices with an XDP program, and the guards that are in XDP.
func onXDP(desired state.Desired) (list []string) {
	for _, o := range desired {
		switch v := o.(type) {
		case state.Attachment:
			if v.Hook == state.HookXDP {
				list = append(list, v.Device)
			}
		case state.Guard:
			if v.XDP {
				list = append(list, "guard "+v.Device)
			}
		}
	}
	slices.Sort(list)
	return list
}

func TestWhatFeaturesNeedOfOneInterfaceIsJoined(t *testing.T) {
	desired, problems := Desire([]state.Part{
		need("lan", state.ChooseAuto, state.RoleBypass, func(n *state.Need) { n.Taken, n.Translators = state.TakenHere, 2 }),
		need("lan", state.ChooseAuto, state.RoleRouted, func(n *state.Need) { n.Table = 3 }),
		need("lan", state.ChooseAuto, state.RoleOffloaded, func(n *state.Need) { n.Egress = "flow_egress" }),
	}, links("lan"))
	want := []string{
		"ingress-entry lan translators 0x2 bypass true xdp-out true routed by table 3 offloaded",
		"program ingress_tc on lan tc-ingress build ", "program flow_egress on lan tc-egress build ",
		"vlan tags in frames of lan", "program ingress_xdp on lan xdp build ",
	}
	if got := lines(desired); !slices.Equal(got, want) || len(problems) > 0 {
		t.Errorf("the plan is\n%q, want\n%q; problems %v", got, want, problems)
	}
}

// The hook of the interface and the wish of the feature decide together.
func TestXDPIsWhereItIsWishedAndPossible(t *testing.T) {
	for _, c := range []struct {
		device string
		hook   state.HookChoice
		wish   state.Wish
		xdp    bool
		refuse bool
	}{
		{"eth0", state.ChooseAuto, state.Indifferent, false, false},
		{"eth0", state.ChooseAuto, state.Wanted, true, false},
		{"eth0", state.ChooseAuto, state.Required, true, false},
		{"eth0", state.ChooseTC, state.Required, false, false},
		{"eth0", state.ChooseXDP, state.Wanted, true, false},
		{"eth0 veth", state.ChooseAuto, state.Required, false, false},
		{"eth0 veth", state.ChooseXDP, state.Required, true, false},
		{"eth0 plain", state.ChooseAuto, state.Required, false, false},
		{"eth0 plain", state.ChooseXDP, state.Indifferent, false, false},
		{"eth0 plain", state.ChooseXDP, state.Wanted, false, false},
		{"eth0 plain", state.ChooseXDP, state.Required, false, true},
		{"lo", state.ChooseAuto, state.Wanted, false, false},
	} {
		name, _, _ := strings.Cut(c.device, " ")
		desired, problems := Desire([]state.Part{need(name, c.hook, state.RoleRouted, func(n *state.Need) { n.XDP = c.wish })}, links(c.device))
		if got := onXDP(desired); (len(got) == 1) != c.xdp {
			t.Errorf("%s, hook %q, wish %d: XDP on %q", c.device, c.hook, c.wish, got)
		}
		if state.HasErrors(problems) != c.refuse {
			t.Errorf("%s, hook %q, wish %d: problems %v", c.device, c.hook, c.wish, problems)
		}
	}
}

// XDP is an error where none of the devices below can have it, or, for an
// interface whose packets one hook must see, where one of them cannot.
func TestXDPThatIsNotPossibleBelowIsRefused(t *testing.T) {
	facts := links("br0 bridge", "eth0 veth in br0", "eth1 plain in br0", "br1 bridge", "eth2 plain in br1")
	for _, c := range []struct {
		part state.Part
		want string
	}{
		{need("br0", state.ChooseXDP, state.RoleRouted, nil), ""},
		{guarding("br0", state.ChooseXDP), "the driver of eth1 has no XDP"},
		{need("br1", state.ChooseXDP, state.RoleRouted, nil), "the driver of eth2 has no XDP"},
	} {
		_, problems := Desire([]state.Part{c.part, c.part}, facts)
		switch {
		case c.want == "" && len(problems) == 0:
		case len(problems) != 2 || !strings.HasPrefix(problems[0].What, c.want): // once for each feature
			t.Errorf("%s: the problems are %v, want %q", c.part.Needs[0].Device, problems, c.want)
		}
	}
}

// A guard that is behind XDP on one of its devices would not see what XDP has
// forwarded already.
func TestXDPIsOnAllDevicesOfAGuardedInterfaceOrOnNone(t *testing.T) {
	mixed := links("br0 bridge", "eth0 in br0", "tap0 tun in br0")
	for name, c := range map[string]struct {
		facts state.Facts
		parts []state.Part
		want  []string
	}{
		"all of them": {
			links("br0 bridge", "eth0 veth in br0", "eth1 veth in br0"), []state.Part{guarding("br0", state.ChooseXDP)}, []string{"eth0", "eth1", "guard br0"},
		},
		"routed alone": {mixed, []state.Part{need("br0", state.ChooseAuto, state.RoleRouted, nil)}, []string{"eth0"}},
		"one has none": {mixed, []state.Part{guarding("br0", state.ChooseAuto)}, nil},
		"one has none, and it is routed": {
			mixed, []state.Part{need("br0", state.ChooseAuto, state.RoleRouted, nil), guarding("br0", state.ChooseAuto)}, nil,
		},
		"XDP is there for another interface": {
			vlanOn(links("eth0", "eth0.5 vlan")), []state.Part{need("eth0", state.ChooseAuto, state.RoleRouted, nil), guarding("eth0.5", state.ChooseTC)}, []string{"eth0", "guard eth0.5"},
		},
		"a translator has the VLAN's packets when XDP has seen them": {
			vlanOn(links("eth0", "eth0.5 vlan")), []state.Part{need("eth0.5", state.ChooseAuto, 0, func(n *state.Need) { n.Taken = state.TakenHere }), guarding("eth0.5", state.ChooseAuto)}, []string{"eth0", "guard eth0.5"},
		},
	} {
		desired, problems := Desire(c.parts, c.facts)
		if got := onXDP(desired); !slices.Equal(got, c.want) || len(problems) > 0 {
			t.Errorf("%s: XDP is on %q, want %q; problems %v", name, got, c.want, problems)
		}
	}
}

// vlanOn has the device with a dot in its name stand on the first.
func vlanOn(facts state.Facts) state.Facts {
	l := &facts.Links[1]
	l.Lower, l.Tag = facts.Links[0].Name, state.VLANTag{Proto: state.VLANCustomer, ID: 5}
	return facts
}

// The guards of weft's own bridges are in TC: a guard of an interface behind
// XDP that is not there would see nothing.
func TestAGuardOnABridgeOfWeftsIsInTC(t *testing.T) {
	facts := links("br0 bridge", "eth0 in br0")
	bridge := state.Part{Objects: state.Desired{state.BridgeGuard{Device: "eth0", Bridge: "br0"}}}
	desired, _ := Desire([]state.Part{bridge, guarding("br0", state.ChooseAuto)}, facts)
	if got := onXDP(desired); len(got) > 0 {
		t.Errorf("XDP is on %q", got)
	}
	for _, o := range desired {
		if p, ok := o.(state.IngressEntry); ok && p.Roles.Has(state.RoleXDPOut) {
			t.Errorf("%s: XDP may send there, past the bridge's guards", p)
		}
	}
}

// Behind a conduit all frames of a switch's port are taken, whichever feature
// needs the port.
func TestFramesOfASwitchAreTakenAtTheConduit(t *testing.T) {
	facts := links("eth0", "lan1 dsa")
	facts.Switch = state.SwitchMTK
	facts.Links[0].Tagging = "mtk"
	facts.Links[1].Lower, facts.Links[1].Port = "eth0", 2
	desired, _ := Desire([]state.Part{need("lan1", state.ChooseAuto, state.RoleOffloaded, nil), guarding("lan1", state.ChooseAuto)}, facts)
	want := []string{
		"guard lan1 bogons false reverse-path off in xdp",
		"ingress-entry lan1 translators 0x0 bypass false xdp-out false guarded offloaded", "ingress-entry eth0 translators 0x0 bypass false xdp-out true conduit",
		"lower eth0 port 1 of lan1", "program ingress_tc on eth0 tc-ingress build ", "vlan tags in frames of eth0", "program ingress_xdp on eth0 xdp build ",
	}
	if got := lines(desired); !slices.Equal(got, want) {
		t.Errorf("the plan is\n%q, want\n%q", got, want)
	}
}

func TestADeviceThatIsNotThereIsSentToOnlyIfWeftMakesIt(t *testing.T) {
	mac := [6]byte{2, 9, 9, 9, 9, 9}
	desired, _ := Desire([]state.Part{
		need("gone", state.ChooseAuto, state.RoleRouted, nil),
		{Needs: []state.Need{{Device: "lns-town", MAC: mac, Taken: state.TakenNowhere}}},
	}, state.Facts{})
	if want := (state.Desired{state.IngressEntry{Device: "lns-town", MAC: mac}}); !slices.Equal(desired, want) {
		t.Errorf("the plan is\n%q, want\n%q", desired, want)
	}
}

// Audits see the parts of all features, and what the planner made of them.
func TestAuditsSeeWhatThePlannerMade(t *testing.T) {
	_, problems := Desire([]state.Part{need("lan", state.ChooseAuto, state.RoleRouted, nil)}, links("lan"), func(parts []state.Part, _ state.Facts) []state.Problem {
		var list []state.Problem
		for _, part := range parts {
			for _, o := range part.Objects {
				list = append(list, state.Problem{What: part.Feature + ": " + o.Key()})
			}
		}
		return list
	})
	if len(problems) == 0 || problems[0].What != Interfaces+": ingress-entry lan" {
		t.Errorf("the problems are %v", problems)
	}
}

// A device without Ethernet frames has no program; what a feature says of such
// devices decides whether that is an error, a warning or all right.
func TestADeviceWithoutEthernetFramesHasNoProgram(t *testing.T) {
	facts := links("tun0 tun", "eth0")
	facts.Links[0].MAC, facts.Links[0].Encap = [6]byte{}, "none"
	for unframed, want := range map[state.Unframed]string{
		state.UnframedRefused: "error: feature.interfaces[0]: tun0 has no Ethernet frames (link/none), and the packets that arrive there cannot be taken",
		state.UnframedLeft:    "warning: feature.interfaces[0]: tun0 has no Ethernet frames (link/none): what arrives there is left to the kernel",
		state.UnframedStack:   "",
	} {
		desired, problems := Desire([]state.Part{need("tun0", state.ChooseXDP, state.RoleRouted, func(n *state.Need) {
			n.Unframed, n.Egress, n.Together, n.Translators = unframed, "flow_egress", true, 4
		})}, facts)
		if got, want := lines(desired), []string{"ingress-entry tun0 translators 0x4 bypass false xdp-out false routed by table 0"}; unframed != state.UnframedRefused && !slices.Equal(got, want) {
			t.Errorf("the plan is\n%q, want\n%q", got, want)
		}
		got := ""
		for _, p := range problems {
			got += p.String()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("the problems are %q, want %q", got, want)
		}
	}
}
