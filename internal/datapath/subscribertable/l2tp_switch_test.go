package subscribertable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/wire/checksum/checksumtest"
)

// Frames that go from one tunnel into another: every vector through the XDP and
// the TC build. Subscribers' tunnels and those to the other server come over
// IPv4 and IPv6, in all four combinations.

const (
	far4p, far6p = "203.0.113.99", "2001:db8:77::99" // the other server
	nearID, onID = 110, 111                          // of the subscriber's session and of the one that it goes on by
)

// onward is a router with a session that goes on to another server.
type switched struct {
	*lns
	near, far        state.L2TPTunnel
	subscriber, away state.L2TPSession
}

func newSwitch(t *testing.T) *switched {
	o := &switched{lns: newLNS(t)}
	end := func(a string) netip.AddrPort { return netip.AddrPortFrom(datapathtest.Addr(a), 1701) }
	o.tunnels = append(o.tunnels,
		state.L2TPTunnel{Local: 19, Remote: 0x0e0f, LocalAddr: end(here4), Peer: end(far4p)},
		state.L2TPTunnel{Local: 20, Remote: 0x1011, LocalAddr: end(here6), Peer: end(far6p)})
	o.between(false, false)
	return o
}

// between puts the session, by the families of its two tunnels.
func (o *switched) between(near6, far6 bool) {
	o.near, o.far = o.tunnels[0], o.tunnels[2]
	if near6 {
		o.near = o.tunnels[1]
	}
	if far6 {
		o.far = o.tunnels[3]
	}
	o.subscriber = state.L2TPSession{Local: nearID, Remote: 0x2122, Tunnel: o.near.Local, SwitchedTo: onID}
	o.away = state.L2TPSession{Local: onID, Remote: 0x2324, Tunnel: o.far.Local, SwitchedTo: nearID, Trusted: true}
	o.again()
}

func (o *switched) again() {
	o.T.Helper()
	o.put(o.subscriber, o.away)
}

// comes is a datagram as it arrives from one of the two sides.
func (o *switched) comes(up bool, f form, sum sumKind, frame []byte) []byte {
	t, id := o.far, uint16(onID)
	if up {
		t, id = o.near, nearID
	}
	return o.Frame("lan", sum.of(outerIP(t.Peer.Addr().String(), t.LocalAddr.Addr().String(), f.framed(t.Local, id, frame)),
		t.Peer.Addr().String(), t.LocalAddr.Addr().String()))
}

// goes is what becomes of it, as an IP packet.
func (o *switched) goes(up bool, priority, summed bool, frame []byte) []byte {
	t, s := o.near, o.subscriber
	if up {
		t, s = o.far, o.away
	}
	data := datapathtest.Bin(fmt.Sprintf("0002 %04x %04x", t.Remote, s.Remote))
	if priority {
		data[0] = 1
	}
	from, to := t.LocalAddr.Addr().String(), t.Peer.Addr().String()
	ip := outerIP(from, to, append(data, frame...))
	if datapathtest.IsIPv4(ip) {
		ip[1] = 0 // ECN has gone
		if summed {
			datapathtest.Seal(ip[20:], 6, from, to, 17)
		}
		return datapathtest.Healed(ip)
	}
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(s.Local))
	datapathtest.Seal(ip[40:], 6, from, to, 17)
	return ip
}

// leaves is the frame around it.
func (o *switched) leaves(build string, came, ip []byte) []byte {
	mac := bytes.Clone(came[:12])
	if build == "ingress_xdp" {
		lan, wan := o.Links["lan"].MAC, o.Links["wan"].MAC
		mac = append(append([]byte{}, datapathtest.Mac4[:]...), wan[:]...)
		if !datapathtest.IsIPv4(ip) {
			mac = append(append([]byte{}, datapathtest.Mac6[:]...), lan[:]...)
		}
	}
	return append(mac, o.Frame("lan", ip)[12:]...)
}

// framed is form.write for a frame of PPP as it is.
func (f form) framed(tunnel, session uint16, frame []byte) []byte {
	bare := form{l2tp: f.l2tp}
	b := append(bare.write(tunnel, session, nil), frame...)
	if b[0]&0x40 != 0 {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	}
	return b
}

// sumKind says what a datagram's UDP checksum is.
type sumKind int

const (
	sumNone sumKind = iota // there is none; over IPv6 there is always one
	sumRight
)

func (k sumKind) of(ip []byte, from, to string) []byte {
	switch {
	case k == sumRight && datapathtest.IsIPv4(ip):
		datapathtest.Seal(ip[20:], 6, from, to, 17)
	case !datapathtest.IsIPv4(ip):
		datapathtest.Seal(ip[40:], 6, from, to, 17)
	}
	return ip
}

// passenger is a frame, and what is known of it.
type passenger struct {
	name   string
	frame  []byte
	data   int  // bytes of the network's packet; 0: it is PPP's own
	silent bool // nothing in it tells its sum
}

func passengers() []passenger {
	var list []passenger
	carry := func(name, ppp string, ip []byte, silent bool) {
		list = append(list, passenger{name, append(datapathtest.Bin(ppp), ip...), len(ip), silent})
	}
	for _, f := range []struct{ name, four, six string }{{"", "ff03 0021", "ff03 0057"}, {" without address", "0021", "0057"}, {" short", "ff03 21", "ff03 57"}, {" shortest", "21", "57"}} {
		carry("UDP in IPv4"+f.name, f.four, datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes(), false)
		carry("odd UDP in IPv4"+f.name, f.four, datapathtest.Udp(alice4, "198.51.100.7", 21).Bytes(), false)
		carry("TCP in IPv6"+f.name, f.six, datapathtest.Tcp(alice6, "2001:db8:1::7", 0x18, nil, 33).Bytes(), false)
		carry("ping in IPv6"+f.name, f.six, datapathtest.Echo(alice6, "2001:db8:1::7", false, 40).Bytes(), false)
		carry("a fragment"+f.name, f.four, datapathtest.Packet{From: alice4, To: "198.51.100.7", Protocol: 17, Flags: 0x2000, Payload: datapathtest.Counting(64)}.Bytes(), true)
	}
	carry("UDP without checksum", "ff03 0021", datapathtest.With(datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes(), 26, 0, 0), true)
	carry("another protocol", "ff03 0021", datapathtest.Packet{From: alice4, To: "198.51.100.7", Protocol: 47, Payload: datapathtest.Counting(31)}.Bytes(), true)
	carry("IPv4 with options", "ff03 0021", datapathtest.Packet{From: alice4, To: "198.51.100.7", Protocol: 17, Options: []byte{1, 1, 1, 1}, Payload: datapathtest.Counting(8)}.Bytes(), true)
	carry("a spoofed source, which is the other server's concern", "ff03 0021", datapathtest.Udp("192.0.2.200", "198.51.100.7", 8).Bytes(), false)
	carry("a packet with padding", "ff03 0021", append(datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes(), 1, 2, 3), true)
	carry("a length that lies", "ff03 0021", datapathtest.With(datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes(), 2, 1, 1), true)
	carry("MPLS", "ff03 0281", datapathtest.Counting(50), true)
	carry("a router solicitation", "ff03 0057", datapathtest.Udp("fe80::1", "ff02::2", 8).Bytes(), false)
	list = append(list,
		passenger{"an LCP echo", datapathtest.Bin("ff03 c021 0901 0008 12345678"), 0, true},
		passenger{"IPCP", datapathtest.Bin("8021 0101 000a 0306 0a400007"), 0, true},
		passenger{"PAP", datapathtest.Bin("ff03 c023 0101 0010 05616c6963 6506 77 6f6e6465"), 0, true},
		passenger{"a protocol of one byte alone", datapathtest.Bin("c1"), 0, true},
		passenger{"nothing that PPP knows", datapathtest.Bin("ff04 0021 4500"), 0, true},
	)
	return list
}

func TestFramesGoOnwardAsTheyAre(t *testing.T) {
	o := newSwitch(t)
	for _, families := range []struct{ near6, far6 bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		o.between(families.near6, families.far6)
		for _, up := range []bool{true, false} {
			came6, goes6 := families.near6, families.far6
			if !up {
				came6, goes6 = goes6, came6
			}
			for _, f := range forms()[:9] {
				numbered := strings.Contains(f.l2tp, "1234") || f.name == "all there is"
				o.away.Numbered = numbered
				o.again()
				for _, p := range passengers() {
					for _, sum := range []sumKind{sumNone, sumRight} {
						if came6 && sum == sumNone {
							continue
						}
						for _, build := range datapathtest.Builds {
							o.passes(t, build, up, f, sum, p, came6, goes6)
						}
					}
				}
			}
		}
	}
}

func (o *switched) passes(t *testing.T, build string, up bool, f form, sum sumKind, p passenger, came6, goes6 bool) {
	t.Helper()
	what := fmt.Sprintf("%s: %s, %s, up %v, sum %v, IPv6 %v to %v", build, p.name, f.name, up, sum == sumRight, came6, goes6)
	frame := o.comes(up, f, sum, p.frame)
	before := [2]state.LNSCounters{o.counters1(nearID), o.counters1(onID)}
	res, got := o.One(build, frame)
	offset := strings.Contains(f.l2tp, "ffffff") || f.name == "all there is" || f.name == "offset 0"
	known := sum == sumRight && !offset || !p.silent
	// with headers in the way the sum cannot be had from the datagram's
	if goes6 && !known && build == "ingress_tc" && p.data > 0 {
		if err := datapathtest.Differs(res, got, state.PassL2tpControl, datapathtest.VerdictOf(build, got), frame); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	want := o.leaves(build, frame, o.goes(up, f.name == "priority" || f.name == "all there is", sum == sumRight && known, p.frame))
	if err := datapathtest.Differs(res, got, state.ForwardSwitched, datapathtest.VerdictOf(build, got), sameButID(res.Frame, want)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	after := [2]state.LNSCounters{o.counters1(nearID), o.counters1(onID)}
	for i := range before {
		n, b := uint64(0), uint64(p.data)
		if p.data > 0 {
			n = 1
		}
		c, w := after[i], before[i]
		w.SeenUp, w.SeenDown = c.SeenUp, c.SeenDown
		if (i == 0) == up {
			w.UpPackets, w.UpBytes = w.UpPackets+n, w.UpBytes+b
		} else {
			w.DownPackets, w.DownBytes = w.DownPackets+n, w.DownBytes+b
		}
		if c != w {
			t.Fatalf("%s: session %d counted %+v, want %+v", what, c.Local, c, w)
		}
	}
}

// A checksum that happens to be the sum of the pseudo-header looks as if it were
// left to the device.
func TestAChecksumThatLooksUnfinished(t *testing.T) {
	o := newSwitch(t)
	for _, families := range []struct{ near6, far6 bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		o.between(families.near6, families.far6)
		from, to := o.near.Peer.Addr().String(), o.near.LocalAddr.Addr().String()
		for _, f := range forms()[:2] {
			frame := append(datapathtest.Bin("ff03 0021"), datapathtest.Packet{From: alice4, To: "198.51.100.7", Protocol: 47, Payload: datapathtest.Counting(32)}.Bytes()...)
			var ip []byte
			for n := range 1 << 16 {
				binary.BigEndian.PutUint16(frame[len(frame)-2:], uint16(n))
				ip = sumRight.of(outerIP(from, to, f.framed(o.near.Local, nearID, frame)), from, to)
				head := 20
				if !datapathtest.IsIPv4(ip) {
					head = 40
				}
				pseudo := append(append([]byte{}, datapathtest.Addr(from).AsSlice()...), datapathtest.Addr(to).AsSlice()...)
				pseudo = append(pseudo, 0, 17)
				pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(ip)-head))
				if binary.BigEndian.Uint16(ip[head+6:]) == ^checksumtest.Of(pseudo) {
					break
				}
				ip = nil
			}
			if ip == nil {
				t.Fatal("there is no such packet")
			}
			came := o.Frame("lan", ip)
			for _, build := range datapathtest.Builds {
				res, got := o.One(build, came)
				if build == "ingress_tc" && f.name != "plain" {
					if got != state.PassL2tpControl || !bytes.Equal(res.Frame, came) {
						t.Errorf("%s, %s: %s", build, f.name, got)
					}
					continue
				}
				// XDP cannot know, and leaves it out where it may
				want := o.leaves(build, came, o.goes(true, false, build == "ingress_tc", frame))
				if err := datapathtest.Differs(res, got, state.ForwardSwitched, datapathtest.VerdictOf(build, got), sameButID(res.Frame, want)); err != nil {
					t.Errorf("%s: %s, %+v: %v", build, f.name, families, err)
				}
			}
		}
	}
}

func TestWhatDoesNotGoOnward(t *testing.T) {
	o := newSwitch(t)
	good := append(datapathtest.Bin("ff03 0021"), datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes()...)
	large := append(datapathtest.Bin("ff03 0021"), datapathtest.Udp(alice4, "198.51.100.7", 1440).Bytes()...)
	f := forms()[0]
	for _, c := range []struct {
		name   string
		change func()
		frame  []byte
		want   state.Outcome
	}{
		{"from another address than the peer's", nil, o.outer("203.0.113.6", here4, f.framed(17, nearID, good)), state.DropL2tpPeer},
		{"the other server's side too", nil, o.outer(peer4, here4, f.framed(19, onID, good)), state.DropL2tpPeer},
		{"by another tunnel", nil, o.outer(peer4, here4, f.framed(17, onID, good)), state.PassL2tpUnknown},
		{"a length that lies", nil, o.outer(peer4, here4, append(datapathtest.Bin("4002 00ff 0011 006e"), good...)), state.DropL2tpInvalid},
		{"too large for the way", nil, o.comes(true, f, sumNone, large), state.PassTooBig},
		{"the server begins to number", nil, o.comes(false, forms()[2], sumNone, good), state.PassL2tpControl},
		{"the server ceases to number", func() { o.away.Numbered = true }, o.comes(false, f, sumNone, good), state.PassL2tpControl},
		{"the subscriber's side may number as it likes", nil, o.comes(true, forms()[2], sumNone, good), state.ForwardSwitched},
		{"the other side is no more", func() {
			if err := o.subscribers.Remove(nil, []uint16{onID}); err != nil {
				t.Fatal(err)
			}
		}, o.comes(true, f, sumNone, good), state.PassL2tpUnknown},
		{"its tunnel is no more", func() {
			if err := o.subscribers.Remove([]uint16{19}, nil); err != nil {
				t.Fatal(err)
			}
		}, o.comes(true, f, sumNone, good), state.PassL2tpUnknown},
	} {
		for _, build := range datapathtest.Builds {
			o.between(false, false)
			if c.change != nil {
				c.change()
				if o.away.Numbered {
					o.again()
				}
			}
			res, got := o.One(build, c.frame)
			if got != c.want || res.Verdict != datapathtest.VerdictOf(build, got) || got.Verdict() != state.Forward && !bytes.Equal(res.Frame, c.frame) {
				t.Errorf("%s: %s: %s, verdict %d, want %s", build, c.name, got, int32(res.Verdict), c.want)
			}
		}
	}
}

// What the L2TP length leaves behind, and what the link does, ends here.
func TestPaddingDoesNotGoOnward(t *testing.T) {
	o := newSwitch(t)
	echo := datapathtest.Bin("ff03 c021 0901 0008 12345678")
	for _, far6 := range []bool{false, true} {
		o.between(false, far6)
		padded := forms()[1].framed(o.near.Local, nearID, echo)
		ip := sumRight.of(outerIP(peer4, here4, append(padded, 9, 9, 9, 9, 9)), peer4, here4)
		for name, came := range map[string][]byte{
			"in the datagram":  o.Frame("lan", ip),
			"behind the frame": append(o.comes(true, forms()[0], sumRight, echo), 7, 7, 7, 7, 7, 7),
		} {
			for _, build := range datapathtest.Builds {
				res, got := o.One(build, came)
				want := o.leaves(build, came, o.goes(true, false, name != "in the datagram", echo))
				if err := datapathtest.Differs(res, got, state.ForwardSwitched, datapathtest.VerdictOf(build, got), sameButID(res.Frame, want)); err != nil {
					t.Errorf("%s: %s, IPv6 %v: %v", build, name, far6, err)
				}
			}
		}
	}
}

// Numbers are this router's own, and count up whichever program sends.
func TestFramesOnwardAreNumbered(t *testing.T) {
	o := newSwitch(t)
	good := append(datapathtest.Bin("ff03 0021"), datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes()...)
	for _, far6 := range []bool{false, true} {
		o.between(false, far6)
		o.away.Sequence = true
		o.again()
		at, first := 42, -1
		if far6 {
			at = 62
		}
		for i, build := range []string{"ingress_xdp", "ingress_tc", "ingress_xdp"} {
			res, got := o.One(build, o.comes(true, forms()[3], sumRight, good))
			if got != state.ForwardSwitched || !bytes.Equal(res.Frame[at:at+2], datapathtest.Bin("0802")) || !bytes.Equal(res.Frame[at+8:], append(datapathtest.Bin("0000"), good...)) {
				t.Fatalf("%s: %s %x", build, got, res.Frame)
			}
			n := int(binary.BigEndian.Uint16(res.Frame[at+6:]))
			if first < 0 {
				first = n
			}
			ip := res.Frame[14:]
			from, to, head := here4, far4p, 20
			if far6 {
				from, to, head = here6, far6p, 40
			}
			if n != first+i || !bytes.Equal(datapathtest.Seal(bytes.Clone(ip[head:]), 6, from, to, 17), ip[head:]) {
				t.Errorf("%s: number %d after %d, %x", build, n, first, ip)
			}
		}
		if n := o.subscribers.Sequence(onID); int(n) != first+3 {
			t.Errorf("the daemon's next number is %d, after %d", n, first+2)
		}
	}
}

// Rates are the subscriber's, both ways; PPP's own is held to them and not counted.
func TestRatesAndGardenHoldOnward(t *testing.T) {
	o := newSwitch(t)
	data := append(datapathtest.Bin("ff03 0021"), datapathtest.Udp(alice4, "198.51.100.7", 972).Bytes()...)
	own := append(datapathtest.Bin("ff03 c021"), datapathtest.Counting(996)...)
	for _, build := range datapathtest.Builds {
		for _, c := range []struct {
			up           bool
			frame        []byte
			drop         state.Outcome
			why          state.SubscriberDrop
			packets      uint64
			packetsCount bool
		}{
			{true, data, state.DropUpstreamRate, state.SubscriberDropUpstreamRate, 0, true},
			{false, data, state.DropDownstreamRate, state.SubscriberDropDownstreamRate, 0, true},
			{true, own, state.DropUpstreamRate, state.SubscriberDropUpstreamRate, 0, false},
		} {
			if err := o.subscribers.Remove(nil, []uint16{nearID, onID}); err != nil {
				t.Fatal(err)
			}
			o.between(false, false)
			o.subscriber.Up, o.subscriber.Down = 80_000, 80_000
			o.again()
			n := map[state.Outcome]uint64{}
			for range 90 {
				_, got := o.One(build, o.comes(c.up, forms()[0], sumNone, c.frame))
				n[got]++
			}
			if n[state.ForwardSwitched] < 66 || n[state.ForwardSwitched] > 80 || n[state.ForwardSwitched]+n[c.drop] != 90 {
				t.Errorf("%s: up %v: %v", build, c.up, n)
			}
			counted := o.counters1(nearID)
			if counted.Drops[c.why] != n[c.drop] || c.packetsCount != (counted.UpPackets+counted.DownPackets == n[state.ForwardSwitched]) ||
				!c.packetsCount && counted.UpPackets != 0 {
				t.Errorf("%s: up %v: %v, counted %+v", build, c.up, n, counted)
			}
		}
	}
	for _, p := range []string{"198.51.100.7/32", "2001:db8:1::/48"} {
		g := state.WalledGarden{Prefix: netip.MustParsePrefix(p)}
		o.In(func() error { return o.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: g}) })
	}
	for _, build := range datapathtest.Builds {
		for _, c := range []struct {
			up, walledGarden, blocked bool
			frame                     []byte
			want                      state.Outcome
		}{
			{true, true, false, append(datapathtest.Bin("21"), datapathtest.Udp(alice4, "198.51.100.7", 8).Bytes()...), state.ForwardSwitched},
			{true, true, false, append(datapathtest.Bin("21"), datapathtest.Udp(alice4, "198.51.100.8", 8).Bytes()...), state.DropWalledGarden},
			{true, true, false, append(datapathtest.Bin("57"), datapathtest.Udp(alice6, "2001:db8:1::9", 8).Bytes()...), state.ForwardSwitched},
			{true, true, false, append(datapathtest.Bin("57"), datapathtest.Udp(alice6, "2001:db8:2::9", 8).Bytes()...), state.DropWalledGarden},
			{true, true, false, append(datapathtest.Bin("57"), datapathtest.Udp("fe80::7", "ff02::2", 8).Bytes()...), state.ForwardSwitched},
			{true, true, false, datapathtest.Bin("c021 0901 0008 12345678"), state.ForwardSwitched},
			{true, true, false, append(datapathtest.Bin("0281"), datapathtest.Counting(40)...), state.DropWalledGarden},
			{false, true, false, append(datapathtest.Bin("21"), datapathtest.Udp("198.51.100.7", alice4, 8).Bytes()...), state.ForwardSwitched},
			{false, true, false, append(datapathtest.Bin("21"), datapathtest.Udp("198.51.100.8", alice4, 8).Bytes()...), state.DropWalledGarden},
			{true, false, true, append(datapathtest.Bin("21"), datapathtest.Udp(alice4, "198.51.100.7", 8).Bytes()...), state.DropWalledGarden},
			{true, false, true, datapathtest.Bin("c021 0901 0008 12345678"), state.ForwardSwitched},
		} {
			o.between(false, true)
			o.subscriber.WalledGarden, o.subscriber.Blocked = c.walledGarden, c.blocked
			o.again()
			before := o.counters1(nearID).Drops[state.SubscriberDropWalledGarden]
			if _, got := o.One(build, o.comes(c.up, forms()[0], sumNone, c.frame)); got != c.want {
				t.Errorf("%s: %x up %v, garden %v: %s, want %s", build, c.frame, c.up, c.walledGarden, got, c.want)
			}
			if after := o.counters1(nearID).Drops[state.SubscriberDropWalledGarden]; (after > before) != (c.want == state.DropWalledGarden) {
				t.Errorf("%s: %x: %d drops after %d", build, c.frame, after, before)
			}
		}
	}
}

func TestFramesOnwardAreCaptured(t *testing.T) {
	o := newSwitch(t)
	ring, err := Of(o.Datapath).Captures()
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	o.subscriber.Capture = true
	o.again()
	for _, build := range datapathtest.Builds {
		for _, p := range passengers() {
			for _, up := range []bool{true, false} {
				if _, got := o.One(build, o.comes(up, forms()[0], sumNone, p.frame)); got != state.ForwardSwitched {
					t.Fatalf("%s: %s: %s", build, p.name, got)
				}
				c, ok, err := ring.Read(time.Now().Add(time.Second))
				if err != nil || !ok || c.Session != nearID || c.Up != up || !c.PPP || c.Length != len(p.frame) || !bytes.Equal(c.Bytes, p.frame) {
					t.Fatalf("%s: %s up %v: %+v, %v, %v", build, p.name, up, c, ok, err)
				}
			}
		}
	}
}

// A GSO packet keeps all that is behind its headers, and goes on in one piece
// where they stay as long as they were.
func TestSuperPacketsGoOnward(t *testing.T) {
	o := newSwitch(t)
	frame := append(datapathtest.Bin("ff03 0021"), datapathtest.Tcp(alice4, "198.51.100.7", 0x10, nil, 2900).Bytes()...)
	run := func(came []byte) (datapathtest.Result, state.Outcome) {
		t.Helper()
		var res datapathtest.Result
		o.In(func() error {
			before, err := o.Counters()
			if err != nil {
				return err
			}
			context := o.SkbContext("ingress_tc", "lan")
			context.GSOSize = 1300
			options := ebpf.RunOptions{Data: came, DataOut: make([]byte, len(came)+64), Context: context}
			verdict, err := o.Program("ingress_tc").Run(&options)
			if err != nil {
				return err
			}
			after, err := o.Counters()
			res = datapathtest.Result{Verdict: verdict, Frame: options.DataOut, Counted: datapathtest.Difference(before, after)}
			return err
		})
		got, err := datapathtest.Variant{Program: "ingress_tc"}.Outcome(res)
		if err != nil {
			t.Fatal(err)
		}
		return res, got
	}
	came := o.comes(true, forms()[0], sumNone, frame)
	res, got := run(came)
	want := o.leaves("ingress_tc", came, o.goes(true, false, false, frame))
	if err := datapathtest.Differs(res, got, state.ForwardSwitched, datapathtest.VerdictOf("ingress_tc", got), sameButID(res.Frame, want)); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		far6  bool
		came  []byte
		apply func()
	}{
		"a length that each segment would have":   {false, o.comes(true, forms()[1], sumNone, frame), nil},
		"numbers that each would have":            {false, came, func() { o.away.Sequence = true }},
		"a checksum that each would have":         {false, o.comes(true, forms()[0], sumRight, frame), nil},
		"into IPv6":                               {true, came, nil},
		"datagrams in a row, not one in segments": {false, o.comes(true, forms()[0], sumNone, append(bytes.Clone(frame), frame[:400]...)), nil},
	} {
		o.between(false, c.far6)
		if c.apply != nil {
			c.apply()
			o.again()
		}
		if res, got := run(c.came); got != state.PassL2tpControl || !bytes.Equal(res.Frame, c.came) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Bytes changed at random: what goes on is the frame, whole; both builds say the
// same, but for what TC must leave because a device may owe a sum.
func TestRandomFramesOnward(t *testing.T) {
	o := newSwitch(t)
	random := rand.New(rand.NewPCG(7, 2661))
	list := passengers()
	for i := range 3000 {
		o.between(i%2 == 0, i%4 < 2)
		up := random.IntN(2) == 0
		p, f := list[random.IntN(len(list))], forms()[random.IntN(9)]
		came := o.comes(up, f, sumKind(random.IntN(2)), p.frame)
		for range random.IntN(3) {
			came[14+random.IntN(min(len(came)-14, 90))] = byte(random.Uint32())
		}
		xdp, a := o.One("ingress_xdp", came)
		tc, b := o.One("ingress_tc", came)
		if a != b && !(a == state.ForwardSwitched && b == state.PassL2tpControl) {
			t.Fatalf("%x met %s and %s", came, a, b)
		}
		for _, r := range []struct {
			res datapathtest.Result
			got state.Outcome
		}{{xdp, a}, {tc, b}} {
			switch {
			case r.got.Verdict() != state.Forward && !bytes.Equal(r.res.Frame, came):
				t.Fatalf("%x was changed: %s", came, r.got)
			case r.got == state.ForwardSwitched:
				if ip := r.res.Frame[14:]; datapathtest.IsIPv4(ip) && checksumtest.Of(ip[:20]) != 0 {
					t.Fatalf("%x became %x", came, r.res.Frame)
				}
			}
		}
	}
}
