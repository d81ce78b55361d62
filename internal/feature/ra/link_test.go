package ra_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
	"weft/internal/state"
	"weft/wire/dhcp6"
)

// theLink is a subscriber's: it has one address, one /64 and one delegated prefix.
func theLink() state.HostLink {
	return state.HostLink{
		Server: "weft-isp", MTU: 1460, Prefix: prefix("2001:db8:1::/64"), Address: addr("2001:db8:3::5"), Delegated: prefix("2001:db8:2::/56"),
		DNS: []netip.Addr{addr("2001:db8::53")}, Portal: "https://pay.example.net/api", Routes: []netip.Prefix{prefix("2001:db8:9::/48")},
	}
}

var theServer = append([]byte{0, 2, 0, 0, 0xff, 0xff}, "weft-isp"...)

// tell sends a message on a subscriber's link and reads the answer; nil: none.
func notify(t *testing.T, l state.HostLink, unicast bool, m dhcp6.Message) *dhcp6.Message {
	t.Helper()
	m.ClientID, m.Transaction = []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}, [3]byte{1, 2, 3}
	switch m.Type {
	case dhcp6.Request, dhcp6.Renew, dhcp6.Release, dhcp6.Decline:
		if m.ServerID == nil {
			m.ServerID = theServer
		}
	}
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b = ra.Links{}.Answer(l, b, unicast)
	if b == nil {
		return nil
	}
	answer, err := dhcp6.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Transaction != m.Transaction || string(answer.ClientID) != string(m.ClientID) || string(answer.ServerID) != string(theServer) {
		t.Errorf("the answer is not to this client's question: %+v", answer)
	}
	return answer
}

// says is an answer's associations in short: lease/valid seconds, or status.
func says(m *dhcp6.Message) string {
	if m == nil {
		return "nothing"
	}
	words := []string{fmt.Sprint(uint8(m.Type))}
	if m.Status != nil {
		words = append(words, fmt.Sprintf("status %d", *m.Status))
	}
	for kind, list := range [][]dhcp6.IA{m.Addresses, m.Prefixes} {
		for _, ia := range list {
			s := []string{"na", "pd"}[kind]
			if ia.Status != nil {
				s += fmt.Sprintf(" status %d", *ia.Status)
			}
			for _, l := range ia.Leases {
				s += fmt.Sprintf(" %s/%d", l.Prefix, int(l.Valid.Seconds()))
			}
			words = append(words, s)
		}
	}
	return strings.Join(words, "; ")
}

// RFC 8415 section 18.3 on a link that has its leases once and for all.
func TestWhatASubscribersLinkAnswers(t *testing.T) {
	mine, mineP := dhcp6.Lease{Prefix: prefix("2001:db8:3::5/128")}, dhcp6.Lease{Prefix: prefix("2001:db8:2::/56")}
	other, otherP := dhcp6.Lease{Prefix: prefix("2001:db8:7::1/128")}, dhcp6.Lease{Prefix: prefix("2001:db8:7::/56")}
	bare := theLink()
	bare.Address, bare.Delegated = netip.Addr{}, netip.Prefix{}
	for _, c := range []struct {
		name string
		link state.HostLink
		m    dhcp6.Message
		want string
	}{
		{"Solicit", theLink(), dhcp6.Message{Type: dhcp6.Solicit, Addresses: one(1), Prefixes: one(1)}, "2; na 2001:db8:3::5/128/5400; pd 2001:db8:2::/56/5400"},
		{"Solicit with rapid commit", theLink(), dhcp6.Message{Type: dhcp6.Solicit, RapidCommit: true, Prefixes: one(1)}, "7; pd 2001:db8:2::/56/5400"},
		{"Solicit where nothing is", bare, dhcp6.Message{Type: dhcp6.Solicit, Addresses: one(1), Prefixes: one(1)}, "2; na status 2; pd status 6"},
		{"Solicit of two of each", theLink(), dhcp6.Message{Type: dhcp6.Solicit, Addresses: append(one(1), one(2)...), Prefixes: append(one(1), one(2)...)},
			"2; na 2001:db8:3::5/128/5400; na status 2; pd 2001:db8:2::/56/5400; pd status 6"},
		{"Request", theLink(), dhcp6.Message{Type: dhcp6.Request, Addresses: one(1, mine), Prefixes: one(1, mineP)}, "7; na 2001:db8:3::5/128/5400; pd 2001:db8:2::/56/5400"},
		{"Request of another link's address", theLink(), dhcp6.Message{Type: dhcp6.Request, Addresses: one(1, other)}, "7; na status 4"},
		{"Request of an address of the link that is not given out", theLink(), dhcp6.Message{Type: dhcp6.Request, Addresses: one(1, dhcp6.Lease{Prefix: prefix("2001:db8:1::9/128")})}, "7; na 2001:db8:3::5/128/5400"},
		{"Request of another's prefix", theLink(), dhcp6.Message{Type: dhcp6.Request, Prefixes: one(1, otherP)}, "7; pd 2001:db8:2::/56/5400"},
		{"Request where nothing is", bare, dhcp6.Message{Type: dhcp6.Request, Addresses: one(1), Prefixes: one(1)}, "7; na status 2; pd status 6"},
		{"Renew", theLink(), dhcp6.Message{Type: dhcp6.Renew, Addresses: one(1, mine), Prefixes: one(1, mineP)}, "7; na 2001:db8:3::5/128/5400; pd 2001:db8:2::/56/5400"},
		{"Renew of what it had before", theLink(), dhcp6.Message{Type: dhcp6.Renew, Addresses: one(1, other), Prefixes: one(1, otherP)},
			"7; na 2001:db8:3::5/128/5400 2001:db8:7::1/128/0; pd 2001:db8:2::/56/5400 2001:db8:7::/56/0"},
		{"Renew where nothing is", bare, dhcp6.Message{Type: dhcp6.Renew, Addresses: one(1, other), Prefixes: one(1, otherP)}, "7; na status 3; pd status 3"},
		{"Rebind", theLink(), dhcp6.Message{Type: dhcp6.Rebind, Addresses: one(1, mine), Prefixes: one(1, mineP)}, "7; na 2001:db8:3::5/128/5400; pd 2001:db8:2::/56/5400"},
		{"Rebind of what it had before", theLink(), dhcp6.Message{Type: dhcp6.Rebind, Prefixes: one(1, otherP)}, "7; pd 2001:db8:2::/56/5400 2001:db8:7::/56/0"},
		{"Rebind where nothing is", bare, dhcp6.Message{Type: dhcp6.Rebind, Addresses: one(1, other), Prefixes: one(1, otherP)}, "7; na status 3 2001:db8:7::1/128/0; pd status 3 2001:db8:7::/56/0"},
		{"Confirm of the link's own", theLink(), dhcp6.Message{Type: dhcp6.Confirm, Addresses: one(1, mine, dhcp6.Lease{Prefix: prefix("2001:db8:1::9/128")})}, "7; status 0"},
		{"Confirm of another link's", theLink(), dhcp6.Message{Type: dhcp6.Confirm, Addresses: one(1, mine, other)}, "7; status 4"},
		{"Confirm of nothing", theLink(), dhcp6.Message{Type: dhcp6.Confirm, Addresses: one(1)}, "nothing"},
		{"Release", theLink(), dhcp6.Message{Type: dhcp6.Release, Addresses: one(1, mine), Prefixes: one(1, mineP)}, "7; status 0"},
		{"Release of what it has not", theLink(), dhcp6.Message{Type: dhcp6.Release, Addresses: one(1, other), Prefixes: one(1, otherP)}, "7; status 0; na status 3; pd status 3"},
		{"Decline", theLink(), dhcp6.Message{Type: dhcp6.Decline, Addresses: one(1, mine)}, "7; status 0"},
		{"Decline of what it has not", theLink(), dhcp6.Message{Type: dhcp6.Decline, Addresses: one(1, other)}, "7; status 0; na status 3"},
		{"Information-request", theLink(), dhcp6.Message{Type: dhcp6.InformationRequest}, "7"},
		{"Renew to another server", theLink(), dhcp6.Message{Type: dhcp6.Renew, ServerID: []byte{0, 9, 9}, Prefixes: one(1, mineP)}, "nothing"},
		{"Rebind to one server", theLink(), dhcp6.Message{Type: dhcp6.Rebind, ServerID: theServer, Prefixes: one(1, mineP)}, "nothing"},
		{"a server's Reply", theLink(), dhcp6.Message{Type: dhcp6.Reply, ServerID: theServer}, "nothing"},
	} {
		if got := says(notify(t, c.link, false, c.m)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
	// what a client gives back is the link's all the same: it may have it again
	if got := says(notify(t, theLink(), false, dhcp6.Message{Type: dhcp6.Solicit, Prefixes: one(1)})); got != "2; pd 2001:db8:2::/56/5400" {
		t.Error(got)
	}
}

// RFC 8415 section 18.4: no Server Unicast option has allowed unicast messages.
func TestWhatIsSentToTheServerAlone(t *testing.T) {
	for _, c := range []struct {
		typ  dhcp6.Type
		want string
	}{
		{dhcp6.Solicit, "nothing"}, {dhcp6.Confirm, "nothing"}, {dhcp6.Rebind, "nothing"}, {dhcp6.InformationRequest, "nothing"},
		{dhcp6.Request, "7; status 5"}, {dhcp6.Renew, "7; status 5"}, {dhcp6.Release, "7; status 5"}, {dhcp6.Decline, "7; status 5"},
	} {
		m := dhcp6.Message{Type: c.typ}
		if c.typ != dhcp6.InformationRequest {
			m.Prefixes = one(1, dhcp6.Lease{Prefix: prefix("2001:db8:2::/56")})
		}
		if got := says(notify(t, theLink(), true, m)); got != c.want {
			t.Errorf("%s: %s, want %s", c.typ, got, c.want)
		}
	}
}

// The other configuration of hosts: by DHCPv6 if they request it or request nothing in
// particular, and by router advertisements.
func TestWhatHostsOfASubscriberLearn(t *testing.T) {
	all := notify(t, theLink(), false, dhcp6.Message{Type: dhcp6.InformationRequest})
	if len(all.DNS) != 1 || all.Portal != theLink().Portal || all.Refresh == 0 {
		t.Errorf("%+v", all)
	}
	some := notify(t, theLink(), false, dhcp6.Message{Type: dhcp6.InformationRequest, Requested: []uint16{dhcp6.OptionDNS}})
	if len(some.DNS) != 1 || some.Portal != "" {
		t.Errorf("%+v", some)
	}
	if asked := notify(t, theLink(), false, dhcp6.Message{Type: dhcp6.Solicit, Requested: []uint16{dhcp6.OptionPortal}, Prefixes: one(1)}); asked.Portal != theLink().Portal || len(asked.DNS) != 0 {
		t.Errorf("%+v", asked)
	}
	b, err := ra.Links{}.Advertisement(theLink())
	if err != nil {
		t.Fatal(err)
	}
	m, err := ndp.ParseMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	var portal, route string
	for _, o := range m.(*ndp.RouterAdvertisement).Options {
		switch o := o.(type) {
		case *ndp.CaptivePortal:
			portal = o.URI
		case *ndp.RouteInformation:
			route = fmt.Sprintf("%s/%d", o.Prefix, o.PrefixLength)
		}
	}
	if portal != theLink().Portal || route != "2001:db8:9::/48" {
		t.Errorf("they get %q and %q", portal, route)
	}
}
