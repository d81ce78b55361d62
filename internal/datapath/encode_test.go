package datapath

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weft/fib"
	"weft/internal/state"
)

// enum reads the constants that a header of bpf/ gives numbers.
func enum(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../../bpf/" + file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\s*([A-Z][A-Z0-9_]+) = (\d+),`).FindAllStringSubmatch(string(text), -1) {
		values[m[1]], _ = strconv.Atoi(m[2])
	}
	return values
}

func TestNumbersInGoAreThoseInC(t *testing.T) {
	port, nat64 := enum(t, "lib/interface.h"), enum(t, "blocks/nat64_maps.h")
	l2tp := enum(t, "blocks/l2tp_maps.h")
	wire := enum(t, "blocks/pseudowire_maps.h")
	hop, route := enum(t, "lib/nexthop.h"), defined(t, "blocks/route.h")
	for name, pair := range map[string][2]int{
		"INTERFACE_SHORTCUT":     {port["INTERFACE_SHORTCUT"], interfaceShortcut},
		"INTERFACE_XDP_OUT":      {port["INTERFACE_XDP_OUT"], interfaceXDPOut},
		"INTERFACE_ROUTED":       {port["INTERFACE_ROUTED"], interfaceRouted},
		"INTERFACE_GUARD":        {port["INTERFACE_GUARD"], interfaceGuard},
		"INTERFACE_OFFLOAD":      {port["INTERFACE_OFFLOAD"], interfaceOffload},
		"INTERFACE_CONDUIT":      {port["INTERFACE_CONDUIT"], interfaceConduit},
		"INTERFACE_TRANSLATED":   {port["INTERFACE_TRANSLATED"], interfaceTranslated},
		"INTERFACE_BRIDGE_PORT":  {port["INTERFACE_BRIDGE_PORT"], interfaceBridgePort},
		"NEIGHBOUR_XDP":          {hop["NEIGHBOUR_XDP"], neighbourXDP},
		"NEIGHBOUR_WIRE":         {hop["NEIGHBOUR_WIRE"], neighbourWire},
		"ROUTE_TABLES":           {route["ROUTE_TABLES"], state.RouteTablesMax},
		"NAT64_HAS_PREFIX":       {nat64["NAT64_HAS_PREFIX"], nat64HasPrefix},
		"NAT64_COMPUTE_UDP":      {nat64["NAT64_COMPUTE_UDP"], nat64ComputeUDP},
		"NAT64_COPY_TOS":         {nat64["NAT64_COPY_TOS"], nat64CopyTOS},
		"NAT64_PREFIX":           {nat64["NAT64_PREFIX"], int(state.RulePrefix)},
		"NAT64_NODE":             {nat64["NAT64_NODE"], int(state.RuleNode)},
		"NAT64_MAPPING":          {nat64["NAT64_MAPPING"], int(state.RuleMapping)},
		"NAT64_MAPPING4":         {nat64["NAT64_MAPPING4"], int(state.RuleMapping4)},
		"NAT64_REFUSED":          {nat64["NAT64_REFUSED"], int(state.RuleRefused)},
		"INTERFACE_PSEUDOWIRES":  {port["INTERFACE_PSEUDOWIRES"], interfacePseudowires},
		"PSEUDOWIRE_COUNTER":     {wire["PSEUDOWIRE_COUNTER"], wireCounter},
		"PSEUDOWIRE_PINNED":      {wire["PSEUDOWIRE_PINNED"], wirePinned},
		"PSEUDOWIRE_SEQUENCE":    {wire["PSEUDOWIRE_SEQUENCE"], wireSequence},
		"PSEUDOWIRE_CHECKSUM":    {wire["PSEUDOWIRE_CHECKSUM"], wireChecksum},
		"PSEUDOWIRE_INHERIT":     {wire["PSEUDOWIRE_INHERIT"], wireInherit},
		"PSEUDOWIRE_NO_DF":       {wire["PSEUDOWIRE_NO_DF"], wireNoDF},
		"PSEUDOWIRE_ANSWER":      {wire["PSEUDOWIRE_ANSWER"], wireAnswer},
		"PSEUDOWIRE_INHERIT_TTL": {wire["PSEUDOWIRE_INHERIT_TTL"], wireInheritTTL},
		"PSEUDOWIRE_XDP":         {wire["PSEUDOWIRE_XDP"], wireXDP},
		"PSEUDOWIRE_RESOLVED":    {wire["PSEUDOWIRE_RESOLVED"], wireResolved},
		"PSEUDOWIRE_SOME":        {wire["PSEUDOWIRE_SOME"], wireSome},
		"PSEUDOWIRE_L2TP_UDP":    {wire["PSEUDOWIRE_L2TP_UDP"], int(state.WireL2TPUDP)},
		"INTERFACE_L2TP":         {port["INTERFACE_L2TP"], interfaceL2TP},
		"L2TP_ACCESS_ROUTED":     {l2tp["L2TP_ACCESS_ROUTED"], l2tpAccessRouted},
		"L2TP_KNOWN":             {l2tp["L2TP_KNOWN"], l2tpKnown},
		"L2TP_GARDEN":            {l2tp["L2TP_GARDEN"], l2tpGarden},
		"L2TP_BLOCKED":           {l2tp["L2TP_BLOCKED"], l2tpBlocked},
		"L2TP_TRUSTED":           {l2tp["L2TP_TRUSTED"], l2tpTrusted},
		"L2TP_SEQUENCE":          {l2tp["L2TP_SEQUENCE"], l2tpSequence},
		"L2TP_NO_ADDRESS":        {l2tp["L2TP_NO_ADDRESS"], l2tpNoAddress},
		"L2TP_SHORT_TYPE":        {l2tp["L2TP_SHORT_TYPE"], l2tpShortType},
		"L2TP_CAPTURE":           {l2tp["L2TP_CAPTURE"], l2tpCapture},
		"L2TP_ONWARD":            {l2tp["L2TP_ONWARD"], l2tpOnward},
		"L2TP_CAPTURED_UP":       {l2tp["L2TP_CAPTURED_UP"], l2tpCapturedUp},
		"L2TP_CAPTURED_PPP":      {l2tp["L2TP_CAPTURED_PPP"], l2tpCapturedPPP},
	} {
		if pair[0] == 0 || pair[0] != pair[1] {
			t.Errorf("%s is %d in C and %d in Go", name, pair[0], pair[1])
		}
	}
}

// defined reads the numbers that a header of bpf/ defines.
func defined(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../../bpf/" + file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#define ([A-Z0-9_]+) (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		values[m[1]], _ = strconv.Atoi(m[2])
	}
	return values
}

func TestProgramsReadTheLayoutThatIsWritten(t *testing.T) {
	for _, f := range []family{fib4, fib6} {
		outer, layout, err := outerSpec(f)
		if err != nil {
			t.Fatal(err)
		}
		least := map[family]int{fib4: fib.MinWords4, fib6: fib.MinWords6}[f]
		if layout != fib.LayoutVersion || int(outer.InnerMap.ValueSize) != 4*least {
			t.Errorf("%s: layout %d of at least %d bytes in C, %d of %d in Go", f, layout, outer.InnerMap.ValueSize, fib.LayoutVersion, 4*least)
		}
	}
}

// The kinds of next hops have no numbers in C: their order is what counts.
func TestKindsOfNexthopsStandInTheOrderOfTheC(t *testing.T) {
	text, err := os.ReadFile("../../bpf/lib/nexthop.h")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)enum nexthop_kind \{(.*?)\};`).FindSubmatch(text)
	if list == nil {
		t.Fatal("no enum nexthop_kind in nexthop.h")
	}
	names := regexp.MustCompile(`NEXTHOP_[A-Z]+`).FindAllString(string(list[1]), -1)
	for i, name := range names {
		if got := "NEXTHOP_" + strings.ToUpper(state.NexthopKind(i).String()); got != name {
			t.Errorf("%d is %s in C and %s in Go", i, name, got)
		}
	}
	if state.NexthopKind(len(names)).String() != "unknown" {
		t.Errorf("Go knows more kinds than C, which has %d", len(names))
	}
}

// The counters' rows are read by the program's place in the list.
func TestProgramsStandInTheOrderOfTheC(t *testing.T) {
	text, err := os.ReadFile("../../bpf/lib/counters.h")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)enum program \{(.*?)PROGRAM_COUNT`).FindSubmatch(text)
	if list == nil {
		t.Fatal("no enum program in counters.h")
	}
	names := regexp.MustCompile(`[A-Z_]+`).FindAllString(string(list[1]), -1)
	if got := fmt.Sprint(names); got != fmt.Sprint(upper(ProgramNames())) {
		t.Errorf("in C %v, in Go %v", names, ProgramNames())
	}
}

func upper(names []string) (list []string) {
	for _, n := range names {
		b := []byte(n)
		for i, c := range b {
			if c >= 'a' && c <= 'z' {
				b[i] = c - 'a' + 'A'
			}
		}
		list = append(list, string(b))
	}
	return list
}

// If an object came out of the tables other than it went in, every plan would
// find something to change.
func TestRulesAndTranslatorsComeOutAsTheyWentIn(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, pair := range []struct {
		six, four string
		u         bool
	}{
		{"2001:db8::/32", "0.0.0.0/0", true}, {"2001:db8:100::/40", "0.0.0.0/0", true}, {"2001:db8:122::/48", "0.0.0.0/0", true},
		{"2001:db8:122:300::/56", "0.0.0.0/0", true}, {"2001:db8:122:344::/64", "0.0.0.0/0", true}, {"64:ff9b::/96", "0.0.0.0/0", false},
		{"2001:db8:c000:200::/56", "192.0.2.0/24", true}, {"2001:db8:c000:221::/64", "192.0.2.33/32", true},
		{"2001:db8:1c0:2:20::/76", "192.0.2.32/28", true}, {"2001:db8:122:344:c0:2::/96", "192.0.2.0/24", true},
		{"2001:db8:3::/120", "203.0.113.0/24", false}, {"2001:db8:3::7/128", "203.0.113.7/32", false}, {"2001:db8:5::/64", "192.0.2.128/26", false},
		{"2001:db8::/33", "10.0.0.0/8", false}, {"2001:db8:3::4/127", "203.0.113.4/31", false},
	} {
		for _, kind := range []state.RuleKind{state.RulePrefix, state.RuleNode, state.RuleMapping, state.RuleMapping4, state.RuleRefused, state.RulePool} {
			six := state.Rule{From: prefix(pair.six), To: prefix(pair.four), Kind: kind, UOctet: pair.u, Translator: 63}
			if got := decodeRule6(encodeRule6(six)); got != six {
				t.Errorf("%v came out as %v", six, got)
			}
			four := state.Rule{From: prefix(pair.four), To: prefix(pair.six), Kind: kind, UOctet: pair.u, Translator: 1}
			if got := decodeRule4(encodeRule4(four)); got != four {
				t.Errorf("%v came out as %v", four, got)
			}
		}
	}
	for _, p := range []string{"", "2001:db8::/32", "2001:db8:122:344::/64", "64:ff9b::/96"} {
		in := state.Translator{ID: 7, Name: "main", Device: "#12", MAC: [6]byte{2, 1, 2, 3, 4, 5}, LowestMTU: 1400, MaxMSS: 1440, UDPZero: true, CopyTOS: p == ""}
		if p != "" {
			in.Prefix = prefix(p)
		}
		if got := decodeTranslator(7, encodeTranslator(in, 12)); got != in {
			t.Errorf("%v came out as %v", in, got)
		}
	}
}

func TestWhatRoutingKnowsComesOutAsItWentIn(t *testing.T) {
	for _, p := range []state.Port{
		{Device: "#99", MAC: [6]byte{2, 1, 2, 3, 4, 5}, Routed: true, Table: 255},
		{Device: "#99", Translators: 5, Shortcut: true, XDPOut: true},
		{Device: "#99", BridgePort: true},
	} {
		if got := decodePort(99, encodePort(p)); got != p {
			t.Errorf("%v came out as %v", p, got)
		}
	}
	for _, tags := range []state.VLANTags{noTags, vlan7, service, qinq} {
		l := state.Lower{Device: "#99", Tags: tags, Upper: "#100"}
		if got := decodeLower(encodeLower(l, 99), 100); got != l {
			t.Errorf("%v came out as %v", l, got)
		}
		n := state.NeighbourEntry{IfIndex: 7, MTU: 1492, Dst: mac6, Src: mac4, Tags: tags, XDP: tags == noTags}
		if got := decodeNeighbour(encodeNeighbour(n)); got != n {
			t.Errorf("%v came out as %v", n, got)
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
