package ingresstable

import (
	"net/netip"
	"testing"

	"weft/internal/state"
)

func TestWhatRoutingKnowsComesOutAsItWentIn(t *testing.T) {
	for _, p := range []state.IngressEntry{
		{Device: "#99", MAC: [6]byte{2, 1, 2, 3, 4, 5}, Roles: state.RoleRouted, Table: 255},
		{Device: "#99", Translators: 5, Roles: state.RoleBypass | state.RoleXDPOut},
		{Device: "#99", Roles: state.RoleBridgePort},
	} {
		if got := decodePort(99, encodePort(p)); got != p {
			t.Errorf("%v came out as %v", p, got)
		}
	}
	customer, service := state.VLANTags{{Proto: state.VLANCustomer, ID: 7}}, state.VLANTags{{Proto: state.VLANService, ID: 100}}
	both := state.VLANTags{service[0], customer[0]}
	for _, tags := range []state.VLANTags{{}, customer, service, both} {
		l := state.Lower{Device: "#99", Tags: tags, Upper: "#100"}
		if got := decodeLower(encodeLower(l, 99), 100); got != l {
			t.Errorf("%v came out as %v", l, got)
		}
	}
}

func TestProxiesComeOutAsTheyWentIn(t *testing.T) {
	for _, p := range []string{"192.0.2.7/32", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "2001:db8::7/128", "64:ff9b::/96"} {
		in := state.Proxy{Device: "#99", Prefix: netip.MustParsePrefix(p)}
		if got := decodeProxy(encodeProxy(in, 99)); got != in {
			t.Errorf("%v came out as %v", in, got)
		}
	}
}
