package aaa

import (
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/rfc6911"
	"layeh.com/radius/vendors/microsoft"
	"layeh.com/radius/vendors/wispr"
)

// Each attribute that the documentation names has its effect.
func TestEachAttributeOfAnAccept(t *testing.T) {
	network := func(s string) *net.IPNet { _, n, _ := net.ParseCIDR(s); return n }
	for name, c := range map[string]struct {
		fill func(p *radius.Packet)
		want Profile
	}{
		"Framed-IP-Address":                {func(p *radius.Packet) { _ = rfc2865.FramedIPAddress_Set(p, net.IPv4(192, 0, 2, 7)) }, Profile{IPv4: netip.MustParseAddr("192.0.2.7")}},
		"Framed-IP-Address, out of pools":  {func(p *radius.Packet) { _ = rfc2865.FramedIPAddress_Set(p, net.IPv4(255, 255, 255, 254)) }, Profile{}},
		"Framed-Pool":                      {func(p *radius.Packet) { _ = rfc2869.FramedPool_SetString(p, "homes") }, Profile{Pool: "homes"}},
		"Framed-Interface-Id":              {func(p *radius.Packet) { _ = rfc3162.FramedInterfaceID_Set(p, net.HardwareAddr{2, 0, 0, 0, 0, 0, 0, 7}) }, Profile{InterfaceID: [8]byte{2, 7: 7}}},
		"Framed-IPv6-Prefix":               {func(p *radius.Packet) { _ = rfc3162.FramedIPv6Prefix_Set(p, network("2001:db8:1::/64")) }, Profile{Prefix: netip.MustParsePrefix("2001:db8:1::/64")}},
		"Framed-IPv6-Prefix of length 128": {func(p *radius.Packet) { _ = rfc3162.FramedIPv6Prefix_Set(p, network("2001:db8:1::5/128")) }, Profile{IPv6: netip.MustParseAddr("2001:db8:1::5")}},
		"Delegated-IPv6-Prefix":            {func(p *radius.Packet) { _ = rfc4818.DelegatedIPv6Prefix_Set(p, network("2001:db8:2::/56")) }, Profile{Delegated: netip.MustParsePrefix("2001:db8:2::/56")}},
		"Framed-IPv6-Address":              {func(p *radius.Packet) { _ = rfc6911.FramedIPv6Address_Set(p, net.ParseIP("2001:db8:3::5")) }, Profile{IPv6: netip.MustParseAddr("2001:db8:3::5")}},
		"the pools of IPv6": {func(p *radius.Packet) {
			_ = rfc3162.FramedIPv6Pool_SetString(p, "a")
			_ = rfc6911.DelegatedIPv6PrefixPool_SetString(p, "b")
			_ = rfc6911.StatefulIPv6AddressPool_SetString(p, "c")
		}, Profile{Pools6: Pools6{Prefix: "a", Delegated: "b", Address: "c"}}},
		"Route-IPv6-Information": {func(p *radius.Packet) { _ = rfc6911.RouteIPv6Information_Set(p, network("2001:db8:9::/48")) }, Profile{Advertised: []netip.Prefix{netip.MustParsePrefix("2001:db8:9::/48")}}},
		"Framed-Route and Framed-IPv6-Route": {func(p *radius.Packet) {
			_ = rfc2865.FramedRoute_SetString(p, "192.0.2.128/26 0.0.0.0 1")
			_ = rfc3162.FramedIPv6Route_SetString(p, "2001:db8:8::/48 :: 1")
		}, Profile{Routes: []netip.Prefix{netip.MustParsePrefix("192.0.2.128/26"), netip.MustParsePrefix("2001:db8:8::/48")}}},
		"name servers": {func(p *radius.Packet) {
			_ = microsoft.MSPrimaryDNSServer_Set(p, net.IPv4(192, 0, 2, 53))
			_ = microsoft.MSSecondaryDNSServer_Set(p, net.IPv4(192, 0, 2, 54))
			_ = rfc6911.DNSServerIPv6Address_Set(p, net.ParseIP("2001:db8::53"))
		}, Profile{DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("192.0.2.54"), netip.MustParseAddr("2001:db8::53")}}},
		"rates": {func(p *radius.Packet) {
			_ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6)
			_ = wispr.WISPrBandwidthMaxDown_Set(p, 9e6)
		}, Profile{RateUp: 5e6, RateDown: 9e6}},
		"Filter-Id": {func(p *radius.Packet) { _ = rfc2865.FilterID_SetString(p, "garden") }, Profile{WalledGarden: true}},
		"times": {func(p *radius.Packet) {
			_ = rfc2865.SessionTimeout_Set(p, 60)
			_ = rfc2865.IdleTimeout_Set(p, 61)
			_ = rfc2869.AcctInterimInterval_Set(p, 62)
		}, Profile{SessionTimeout: time.Minute, IdleTimeout: 61 * time.Second, Interim: 62 * time.Second}},
		"Class, as often as it comes": {func(p *radius.Packet) {
			_ = rfc2865.Class_Add(p, []byte("a"))
			_ = rfc2865.Class_Add(p, []byte("b"))
		}, Profile{Class: [][]byte{[]byte("a"), []byte("b")}}},
	} {
		p := radius.New(radius.CodeAccessAccept, []byte("s"))
		c.fill(p)
		if got, err := profileOf(p, nil); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// Values that an Access-Accept should not have are used as far as they can be, and reported.
func TestOddValuesOfAnAcceptAreReported(t *testing.T) {
	attribute := func(length byte, address string, octets int) radius.Attribute {
		a := netip.MustParseAddr(address).As16()
		return append(radius.Attribute{0, length}, a[:octets]...)
	}
	const framed, delegated = rfc3162.FramedIPv6Prefix_Type, rfc4818.DelegatedIPv6Prefix_Type
	type value struct {
		kind radius.Type
		radius.Attribute
	}
	for name, c := range map[string]struct {
		values            []value
		framed, delegated string
		says              []string
	}{
		"nothing odd":           {[]value{{framed, attribute(64, "2001:db8:1::", 16)}, {delegated, attribute(56, "2001:db8:2::", 7)}}, "2001:db8:1::/64", "2001:db8:2::/56", nil},
		"a second prefix":       {[]value{{framed, attribute(64, "2001:db8:1::", 16)}, {framed, attribute(64, "2001:db8:9::", 8)}}, "2001:db8:1::/64", "", []string{"Framed-IPv6-Prefix 2001:db8:9::/64 is ignored"}},
		"a second delegation":   {[]value{{delegated, attribute(56, "2001:db8:2::", 16)}, {delegated, attribute(56, "2001:db8:3::", 16)}}, "", "2001:db8:2::/56", []string{"Delegated-IPv6-Prefix 2001:db8:3::/56 is ignored"}},
		"host bits":             {[]value{{delegated, attribute(56, "2001:db8:2::1", 16)}}, "", "2001:db8:2::/56", []string{"taken as 2001:db8:2::/56"}},
		"too short":             {[]value{{delegated, radius.Attribute{0}}}, "", "", []string{"its length is 1 octets"}},
		"too long":              {[]value{{delegated, append(attribute(56, "2001:db8:2::", 16), 0)}}, "", "", []string{"its length is 19 octets"}},
		"longer than its bytes": {[]value{{delegated, attribute(56, "2001:db8:2::", 4)}, {delegated, attribute(56, "2001:db8:3::", 16)}}, "", "2001:db8:3::/56", []string{"cannot hold a prefix of 56 bits"}},
		"200 bits":              {[]value{{framed, attribute(200, "2001:db8:2::", 16)}}, "", "", []string{"cannot hold a prefix of 200 bits"}},
		"no length":             {[]value{{framed, attribute(0, "2001:db8:2::", 16)}}, "", "", []string{"cannot hold a prefix of 0 bits"}},
		"a /56 to announce":     {[]value{{framed, attribute(56, "2001:db8:1::", 16)}}, "2001:db8:1::/56", "", []string{"is no /64"}},
	} {
		p := radius.New(radius.CodeAccessAccept, []byte("s"))
		for _, v := range c.values {
			p.Add(v.kind, v.Attribute)
		}
		got, err := profileOf(p, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := func(p netip.Prefix) string {
			if !p.IsValid() {
				return ""
			}
			return p.String()
		}
		if text(got.Prefix) != c.framed || text(got.Delegated) != c.delegated || len(got.Remarks) != len(c.says) {
			t.Errorf("%s: %s, %s, remarks %q, want %s, %s, %q", name, got.Prefix, got.Delegated, got.Remarks, c.framed, c.delegated, c.says)
			continue
		}
		for i, want := range c.says {
			if !strings.Contains(got.Remarks[i], want) {
				t.Errorf("%s: %q, want %q", name, got.Remarks[i], want)
			}
		}
	}
}

// What a session has and carried is in its accounts (RFC 2866, RFC 2869, RFC
// 3162, RFC 4818, RFC 6911).
func TestEachAttributeOfAnAccount(t *testing.T) {
	c := NewClient(slog.New(slog.DiscardHandler), "lns", nil)
	now := time.Now()
	a := Accounting{
		Status: StatusStop, ID: "a1", Login: "alice", Session: 5, Started: now.Add(-time.Minute), At: now, Cause: CauseIdleTimeout,
		Call: question(Credentials{}).Call,
		Assigned: Assigned{
			IPv4: netip.MustParseAddr("192.0.2.7"), IPv6: netip.MustParseAddr("2001:db8:3::5"), Prefix: netip.MustParsePrefix("2001:db8:1::/64"),
			Delegated: netip.MustParsePrefix("2001:db8:2::/56"), InterfaceID: [8]byte{2, 7: 7}, Class: [][]byte{[]byte("a")},
		},
	}
	p, err := c.accountingRequest([]byte("s"), &a, Traffic{InputOctets: 1<<32 + 5, InputPackets: 6, OutputOctets: 7, OutputPackets: 8})
	if err != nil {
		t.Fatal(err)
	}

	if rfc2866.AcctInputOctets_Get(p) != 5 || rfc2869.AcctInputGigawords_Get(p) != 1 || rfc2866.AcctInputPackets_Get(p) != 6 || rfc2866.AcctOutputOctets_Get(p) != 7 || rfc2866.AcctOutputPackets_Get(p) != 8 ||
		rfc2866.AcctSessionTime_Get(p) != 60 || rfc2866.AcctTerminateCause_Get(p) != rfc2866.AcctTerminateCause_Value_IdleTimeout {
		t.Errorf("it says %v", p.Attributes)
	}
	if prefix(rfc3162.FramedIPv6Prefix_Get(p)) != a.Assigned.Prefix || prefix(rfc4818.DelegatedIPv6Prefix_Get(p)) != a.Assigned.Delegated ||
		rfc6911.FramedIPv6Address_Get(p).String() != "2001:db8:3::5" || [8]byte(rfc3162.FramedInterfaceID_Get(p)) != a.Assigned.InterfaceID ||
		rfc2865.Class_GetString(p) != "a" || rfc2865.FramedIPAddress_Get(p).String() != "192.0.2.7" || rfc2865.NASPort_Get(p) != 5 {
		t.Errorf("it says %v", p.Attributes)
	}
	p, err = c.accountingRequest([]byte("s"), &Accounting{Status: StatusOn, ID: "on-isp", At: now, Call: a.Call}, Traffic{})
	if err != nil || rfc2866.AcctStatusType_Get(p) != rfc2866.AcctStatusType_Value_AccountingOn || rfc2865.NASIPAddress_Get(p).String() != "198.51.100.1" ||
		rfc2865.NASIdentifier_GetString(p) != "lns" || rfc2866.AcctSessionID_GetString(p) != "on-isp" || !rfc2869.EventTimestamp_Get(p).Equal(now.Truncate(time.Second)) {
		t.Errorf("%v: it says %v", err, p)
	}
	if _, has := p.Lookup(rfc2865.UserName_Type); has {
		t.Error("it matches no session")
	}
}
