package netfilter

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// recorded returns the bodies of messages that a kernel sent.
func recorded(t testing.TB) (list [][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/traces.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		b, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// newRefusals is a reader without a socket.
func newRefusals() *Refusals { return &Refusals{nil, map[uint32]state.RefusedPacket{}} }

// reported returns the refused packets that a reader finds in messages.
func reported(r *Refusals, bodies ...[]byte) (list []state.RefusedPacket) {
	for _, b := range bodies {
		r.take(b, func(p state.RefusedPacket) { list = append(list, p) })
	}
	return list
}

func TestRefusalsAreReadAsTheKernelTellsThem(t *testing.T) {
	type refusal struct {
		from, to    string
		port        uint16
		protocol    uint8
		chain, rule string
	}
	var got []refusal
	r := newRefusals()
	for _, p := range reported(r, recorded(t)...) {
		rule := "policy"
		if p.Rule != 0 {
			rule = "rule"
		}
		got = append(got, refusal{p.Tuple.From().String(), p.Tuple.To().String(), p.Tuple.DstPort, p.Tuple.Protocol, p.Table + " " + p.Chain, rule})
		if p.Interface != 1 || p.Family != familyInet || p.To != p.Tuple.To() || p.Tuple.SrcPort == 0 || p.Opens != (p.Tuple.Protocol == 6) {
			t.Errorf("%+v", p)
		}
	}
	want := []refusal{
		{"127.0.0.1", "127.0.0.1", 53, 17, "home input", "rule"},
		{"127.0.0.1", "127.0.0.1", 54, 17, "home input", "policy"},
		{"127.0.0.1", "127.0.0.1", 80, 6, "home input", "policy"},
		{"::1", "::1", 80, 6, "home input", "policy"},
		{"::1", "::1", 128, 58, "home input", "policy"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("read\n%v, not\n%v", got, want)
	}
	if len(r.open) != 0 {
		t.Errorf("%d packets still wait for a verdict", len(r.open))
	}
}

// trace is a message of the kind that the kernel sends.
func trace(family uint8, id uint32, kind uint32, attributes ...[]byte) []byte {
	return slices.Concat(append([][]byte{{family, 0, 0, 0}, nlconn.Attribute(traceType, nlconn.Put32(kind)), nlconn.Attribute(traceID, nlconn.Put32(id))}, attributes...)...)
}

func inTable(table, chain string) []byte {
	return slices.Concat(nlconn.Attribute(traceTable, append([]byte(table), 0)), nlconn.Attribute(traceChain, append([]byte(chain), 0)))
}

func verdict(code uint32) []byte {
	return nlconn.Nested(traceVerdict, nlconn.Attribute(verdictCode, nlconn.Put32(code)))
}

// datagram is a packet's two headers, with a change made to them.
func datagram(change func(network, transport []byte)) []byte {
	network, transport := make([]byte, 20), make([]byte, 8)
	network[0], network[8], network[9] = 0x45, 64, 17
	copy(network[12:], []byte{192, 0, 2, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(transport, 4444)
	binary.BigEndian.PutUint16(transport[2:], 53)
	if change != nil {
		change(network, transport)
	}
	return slices.Concat(nlconn.Attribute(traceIIF, nlconn.Put32(3)), nlconn.Attribute(traceNetwork, network), nlconn.Attribute(traceTransport, transport))
}

func TestWhatATraceTells(t *testing.T) {
	ours := inTable(state.RefusalTable, "sample_1")
	theirs := inTable("home", "forward")
	sampled := func(change func(n, h []byte)) []byte {
		return trace(familyInet, 7, traceTypeRule, ours, datagram(change), verdict(^uint32(0)))
	}
	dropped := trace(familyInet, 7, traceTypeRule, theirs, nlconn.Attribute(traceHandle, []byte{0, 0, 0, 0, 0, 0, 0, 9}), verdict(nfDrop))
	for name, c := range map[string]struct {
		messages [][]byte
		notified int
	}{
		"a rule that drops":                         {[][]byte{sampled(nil), dropped}, 1},
		"a policy that drops":                       {[][]byte{sampled(nil), trace(familyIPv4, 7, traceTypePolicy, theirs, nlconn.Attribute(tracePolicy, nlconn.Put32(nfDrop)))}, 1},
		"a policy that accepts":                     {[][]byte{sampled(nil), trace(familyInet, 7, traceTypePolicy, theirs, nlconn.Attribute(tracePolicy, nlconn.Put32(1)))}, 0},
		"a rule that goes on, then one that drops":  {[][]byte{sampled(nil), trace(familyInet, 7, traceTypeRule, theirs, verdict(^uint32(0))), dropped}, 1},
		"dropped twice, reported once":              {[][]byte{sampled(nil), dropped, dropped}, 1},
		"a packet that another program traced":      {[][]byte{trace(familyInet, 7, traceTypeRule, theirs, datagram(nil), verdict(nfDrop))}, 0},
		"another packet's verdict":                  {[][]byte{sampled(nil), trace(familyInet, 8, traceTypeRule, theirs, verdict(nfDrop))}, 0},
		"a bridge's rule is no verdict on the flow": {[][]byte{sampled(nil), trace(7, 7, traceTypeRule, theirs, verdict(nfDrop)), dropped}, 0},
		"a device's rule neither":                   {[][]byte{sampled(nil), trace(5, 7, traceTypeRule, theirs, verdict(nfDrop)), dropped}, 0},
		"the end of a chain is none":                {[][]byte{sampled(nil), trace(familyInet, 7, 2, theirs, verdict(nfDrop))}, 0},
		"a packet with options":                     {[][]byte{sampled(func(n, _ []byte) { n[0] = 0x46 }), dropped}, 0},
		"a fragment":                                {[][]byte{sampled(func(n, _ []byte) { n[6] = 0x20 }), dropped}, 0},
		"a later fragment":                          {[][]byte{sampled(func(n, _ []byte) { n[7] = 1 }), dropped}, 0},
		"one that must not be fragmented":           {[][]byte{sampled(func(n, _ []byte) { n[6] = 0x40 }), dropped}, 1},
		"a protocol that is not offloaded":          {[][]byte{sampled(func(n, _ []byte) { n[9] = 47 }), dropped}, 0},
		"an echo request":                           {[][]byte{sampled(func(n, h []byte) { n[9], h[0], h[1] = 1, 8, 0 }), dropped}, 1},
		"an error of ICMP":                          {[][]byte{sampled(func(n, h []byte) { n[9], h[0], h[1] = 1, 3, 1 }), dropped}, 0},
		"TCP without its flags":                     {[][]byte{sampled(func(n, h []byte) { n[9] = 6 }), dropped}, 0},
		"no header of transport":                    {[][]byte{trace(familyInet, 7, traceTypeRule, ours, nlconn.Attribute(traceIIF, nlconn.Put32(3)), nlconn.Attribute(traceNetwork, make([]byte, 20)), verdict(^uint32(0))), dropped}, 0},
		"a header too short":                        {[][]byte{{1, 0, 0}, dropped}, 0},
		"nothing":                                   {[][]byte{{}}, 0},
	} {
		if list := reported(newRefusals(), c.messages...); len(list) != c.notified {
			t.Errorf("%s: %d reported, not %d: %+v", name, len(list), c.notified, list)
		}
	}
}

// Of TCP the beginning of a connection is refused, and nothing else.
func TestOfTCPOnlySYNsAreTold(t *testing.T) {
	for flags := range 256 {
		h := make([]byte, 20)
		h[13] = byte(flags)
		body := slices.Concat(nlconn.Attribute(traceIIF, nlconn.Put32(3)), nlconn.Attribute(traceTransport, h))
		n := make([]byte, 20)
		n[0], n[9] = 0x45, 6
		sample := trace(familyInet, 1, traceTypeRule, inTable(state.RefusalTable, "sample_1"), body, nlconn.Attribute(traceNetwork, n))
		list := reported(newRefusals(), sample, trace(familyInet, 1, traceTypePolicy, inTable("home", "forward"), nlconn.Attribute(tracePolicy, nlconn.Put32(nfDrop))))
		if opens := flags&0x17 == 2; opens != (len(list) == 1) {
			t.Errorf("flags %#x: %d reported", flags, len(list))
		}
	}
}

// NAT's new destination is that of the chain that refuses.
func TestATraceTellsTheDestinationBehindNAT(t *testing.T) {
	changed := datagram(func(n, _ []byte) { copy(n[16:], []byte{10, 0, 0, 99}) })
	list := reported(newRefusals(),
		trace(familyInet, 7, traceTypeRule, inTable(state.RefusalTable, "sample_1"), datagram(nil), verdict(^uint32(0))),
		trace(familyInet, 7, traceTypePolicy, inTable("home", "forward"), changed, nlconn.Attribute(tracePolicy, nlconn.Put32(nfDrop))))
	if len(list) != 1 || list[0].To != netip.MustParseAddr("10.0.0.99") || list[0].Tuple.To() != netip.MustParseAddr("10.0.0.2") {
		t.Errorf("%+v", list)
	}
}

func TestPacketsThatWaitForAVerdictAreBounded(t *testing.T) {
	r := newRefusals()
	for id := range uint32(3 * openMax) {
		reported(r, trace(familyInet, id, traceTypeRule, inTable(state.RefusalTable, "sample_1"), datagram(nil)))
	}
	if len(r.open) > openMax {
		t.Errorf("%d packets wait", len(r.open))
	}
}

// FuzzTrace feeds bytes to the reader of traces: it never panics, refuses messages
// that are too short and no others, and reports no flow that it has not seen
// completely.
func FuzzTrace(f *testing.F) {
	for _, b := range recorded(f) {
		f.Add(b)
		f.Add(b[:len(b)-5])
	}
	f.Add([]byte{unix.AF_INET, 0, 0})
	end := trace(familyInet, 7, traceTypePolicy, inTable("home", "forward"), nlconn.Attribute(tracePolicy, nlconn.Put32(nfDrop)))
	f.Fuzz(func(t *testing.T, b []byte) {
		parsed, err := parseTrace(b)
		if (err != nil) != (len(b) < sizeofNfgenmsg) || err != nil && !errors.Is(err, nlconn.ErrShort) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		for n := range b {
			_, _ = parseTrace(b[:n])
		}
		r := newRefusals()
		for _, p := range reported(r, b, bytes.Clone(end)) {
			if len(r.open) > 1 || !p.Tuple.From().IsValid() || p.Interface == 0 || (parsed.table != state.RefusalTable) {
				t.Fatalf("%x tells %+v", b, p)
			}
		}
	})
}
