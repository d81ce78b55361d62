package flowtable

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// A random history of flows that come and go in tables that are full at times,
// beside a map: the tables give what the map has, and the programs of both
// builds forward packets of just those. The tables are small, so that flows are in
// each of their buckets.
func TestLinesHaveTheFlowsThatWerePut(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) {
		historyOfLines(t, func(n int) datapathtest.Packet {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 0x0a000000+uint32(n/7))
			return udpBetween(datapathtest.AddrOf(a[:]), distant4, uint16(1000+n%7), 53, 20)
		})
	})
	t.Run("IPv6", func(t *testing.T) {
		historyOfLines(t, func(n int) datapathtest.Packet {
			a := netip.MustParseAddr("2001:db8:7::").As16()
			binary.BigEndian.PutUint32(a[4+n%3*4:], uint32(n/7)) // any part of it may differ
			return udpBetween(netip.AddrFrom16(a).String(), distant6, uint16(1000+n%7), 53, 20)
		})
	})
}

// fill is how many flows there are of a family, and in second buckets by their first.
func (f *Flows) fill(ipv4 bool) (int, []uint32) {
	if ipv4 {
		return f.v4.flows, f.v4.index.away
	}
	return f.v6.flows, f.v6.index.away
}

func historyOfLines(t *testing.T, packetOf func(n int) datapathtest.Packet) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	size := int(o.Table("flow_passes").MaxEntries())
	ipv4 := tuple(packetOf(0)).Is4()
	r := rand.New(rand.NewPCG(5, 6))
	model := map[state.FlowKey]state.Flow{}
	flowOf := func(n int, change uint16) state.Flow {
		in := tuple(packetOf(n))
		out := in
		out.SrcPort += change
		return state.Flow{FlowKey: state.FlowKey{Interface: uint32(o.Links["lan"].Index), Tuple: in}, Becomes: out, Hop: 1, Generation: o.flows.Generation()}
	}
	most, elsewhere := 0, 0
	for round := range 24 {
		var put []state.Flow
		var gone []state.FlowKey
		for range size / 4 {
			if f := flowOf(r.IntN(3*size), uint16(r.IntN(2))); r.IntN(10) < 9 {
				put = append(put, f)
			} else {
				gone = append(gone, f.FlowKey)
			}
		}
		n, err := o.put(put)
		for _, f := range put[:n] {
			model[f.FlowKey] = f
		}
		if full := errors.Is(err, ErrFlowsFull); err != nil && !full || full != (n < len(put)) || full && len(model) != size {
			t.Fatalf("%d of %d written, %d there of %d: %v", n, len(put), len(model), size, err)
		}
		most = max(most, len(model))
		if err := o.flows.DeleteFlows(gone); err != nil {
			t.Fatal(err)
		}
		for _, k := range gone {
			delete(model, k)
		}
		flows, away := o.flows.fill(ipv4)
		for _, n := range away {
			elsewhere += int(n)
		}
		sameFlows(t, o.flows, model)
		for range 40 {
			n := r.IntN(3 * size)
			p := packetOf(n)
			f, there := model[flowOf(n, 0).FlowKey]
			for _, build := range datapathtest.Builds {
				res, got := o.one(build, o.Frame("lan", p.Bytes()))
				if !there {
					if got == state.ForwardFlow {
						t.Fatalf("%s: round %d: a packet of no flow is forwarded", build, round)
					}
					continue
				}
				out := packetOf(n)
				binary.BigEndian.PutUint16(out.Payload, f.Becomes.SrcPort)
				if got != state.ForwardFlow || tupleOf(res.Frame) != f.Becomes {
					t.Fatalf("%s: round %d: %s met %s, want it forwarded as %s", build, round, f.Tuple, got, f.Becomes)
				}
			}
		}
		if round%10 == 5 { // another weft finds what the last one left
			if err := o.flows.Close(); err != nil {
				t.Fatal(err)
			}
			if o.flows, err = Of(o.Datapath).Flows(); err != nil {
				t.Fatal(err)
			}
			if n, there := o.flows.fill(ipv4); n != flows || !slices.Equal(there, away) {
				t.Fatalf("%d flows, were %d; %d in second buckets by their first, were %d", n, flows, there, away)
			}
			sameFlows(t, o.flows, model)
		}
	}
	if most < size || elsewhere == 0 {
		t.Errorf("the history filled %d of %d places, and %d flows were not in their first bucket", most, size, elsewhere)
	}
	for k := range model {
		if err := o.flows.DeleteFlows([]state.FlowKey{k}); err != nil {
			t.Fatal(err)
		}
	}
	sameFlows(t, o.flows, nil)
	if flows, away := o.flows.fill(ipv4); flows != 0 || slices.Max(away) != 0 {
		t.Errorf("%d flows and %d in second buckets by their first are left of none", flows, away)
	}
}

// tupleOf is that of a frame with UDP over IPv4.
func tupleOf(frame []byte) state.FlowTuple {
	from, to := datapathtest.Ends(frame[14:])
	return state.FlowTuple{Src: from.Addr().As16(), Dst: to.Addr().As16(), SrcPort: from.Port(), DstPort: to.Port(), Protocol: 17}
}

// sameFlows fails unless the tables have exactly the flows of the model, as seen by
// their owner and by another reader.
func sameFlows(t *testing.T, f *Flows, model map[state.FlowKey]state.Flow) {
	t.Helper()
	other, err := f.d.ViewFlows()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, who := range []*Flows{f, other} {
		found := 0
		err := who.Each(func(u state.FlowUse) {
			found++
			if want, there := model[u.FlowKey]; !there || want != u.Flow {
				t.Errorf("it has %+v, want %+v", u.Flow, want)
			}
		})
		if err != nil || found != len(model) {
			t.Fatalf("it has %d flows of %d (%v)", found, len(model), err)
		}
	}
}

// A flow that is written again unchanged keeps its counters; one that changes starts
// at zero.
func TestAFlowLearntAgainKeepsItsCounts(t *testing.T) {
	for _, tt := range []struct{ member, public, distant string }{{member4, public4, distant4}, {member6, "2001:db8:1::3", distant6}} {
		o := newOffloader(t)
		o.hop(1, asItIs)
		in, out := udpBetween(tt.member, tt.distant, 1000, 53, 100), udpBetween(tt.public, tt.distant, 2000, 53, 100)
		counts := func() (n uint64) {
			if err := o.flows.Each(func(u state.FlowUse) { n += u.Packets }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		o.learn(in, in, 1)
		for _, build := range datapathtest.Builds {
			o.one(build, o.Frame("lan", in.Bytes()))
		}
		o.flows.Bump()
		if o.learn(in, in, 1); counts() != 2 {
			t.Errorf("%s: %d packets are counted, want 2", tt.member, counts())
		}
		if o.learn(in, out, 1); counts() != 0 {
			t.Errorf("%s: %d packets of a flow that has had none", tt.member, counts())
		}
		if _, got := o.one("ingress_xdp", o.Frame("lan", in.Bytes())); got != state.ForwardFlow || counts() != 1 {
			t.Errorf("%s: met %s, counted %d", tt.member, got, counts())
		}
	}
}

// What keeps flows alive asks for those that are of no use, and for the state of
// some: of both families, and of any interface.
func TestFlowsOfNoUseAreGivenAndAnyIsFound(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	o.hop(2, asItIs)
	var put []state.Flow
	var keys []state.FlowKey
	for i, p := range []datapathtest.Packet{
		udpBetween(member4, distant4, 4000, 53, 20), udpBetween(member4, distant4, 4001, 53, 20), udpBetween(member6, distant6, 4000, 53, 20), udpBetween(member6, distant6, 4001, 53, 20),
		udpBetween(member4, distant4, 4002, 53, 20), udpBetween(member4, distant4, 4003, 53, 20),
	} {
		k := state.FlowKey{Interface: uint32(o.Links["lan"].Index), Tuple: tuple(p)}
		if i >= 4 {
			k.Interface = 1<<31 + 5
		}
		keys = append(keys, k)
		put = append(put, state.Flow{FlowKey: k, Becomes: k.Tuple, Hop: 1 + uint32(i%2), Generation: o.flows.Generation()})
	}
	if _, err := o.put(put); err != nil {
		t.Fatal(err)
	}
	looked := 0
	given := map[state.FlowKey]bool{}
	for more := true; more; {
		var err error
		more, err = o.flows.Some(func(f state.FlowState) bool { looked++; return f.Hop == 1 }, func(u state.FlowUse) { given[u.FlowKey] = true })
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range keys {
		if given[k] != (i%2 == 1) {
			t.Errorf("%s by way %d: given is %v", k.Tuple, put[i].Hop, given[k])
		}
	}
	if looked != len(keys) {
		t.Errorf("%d flows were looked at, there are %d", looked, len(keys))
	}
	missing := keys[0]
	missing.Tuple.SrcPort = 5000
	found := map[int]state.FlowState{}
	if err := o.flows.Look(append(keys, missing), func(i int, f state.FlowState) { found[i] = f }); err != nil || len(found) != len(keys) {
		t.Fatalf("%d of %d flows found: %v (%v)", len(found), len(keys), found, err)
	}
	for i := range keys {
		if f := found[i]; f.Hop != put[i].Hop || f.Generation != o.flows.Generation() || f.Closed || f.Idle > time.Minute {
			t.Errorf("%s: %+v", keys[i].Tuple, f)
		}
	}
}

// A process that is killed leaves a line that is in no slot, a slot whose line is
// empty, a flow in both its buckets, or a bucket without the mark that a flow is in
// its second. The next process repairs this, and programs find the flows that exist.
func TestWhatDiedOnTheWayIsMadeRight(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	model := map[state.FlowKey]state.Flow{}
	var put []state.Flow
	for n := range int(o.Table("flow_passes").MaxEntries()) {
		k := state.FlowKey{Interface: uint32(o.Links["lan"].Index), Tuple: tuple(udpBetween(member4, distant4, uint16(1000+n%50000), uint16(53+n/50000), 20))}
		put = append(put, state.Flow{FlowKey: k, Becomes: k.Tuple, Hop: 1, Generation: o.flows.Generation()})
		model[k] = put[n]
	}
	if n, err := o.put(put); err != nil {
		t.Fatal(n, err)
	}
	x := &o.flows.v4.index
	placeOf := func(f state.Flow) (*flowBucket, int, placed) {
		k := encodeFlowKey4(f.FlowKey)
		at, place, found := x.find(flowHash4(k), func(line uint32) bool { return o.flows.v4.line(line).key() == k })
		if !found {
			t.Fatalf("%s is not there", f.Tuple)
		}
		return &x.buckets[at], place, x.placesOf(flowHash4(k))
	}
	b, place, _ := placeOf(put[0]) // its line was written, its place not yet
	b.setTag(place, 0)
	delete(model, put[0].FlowKey)
	b, place, _ = placeOf(put[1]) // its line was cleared, its place not yet
	o.flows.v4.lines[b.line(place)].Interface = 0
	delete(model, put[1].FlowKey)
	twice, second := false, 0
	touched := map[int]bool{}
	for n, f := range put[2:] {
		b, place, p := placeOf(f)
		if b == &x.buckets[p.in[1]] && p.in[0] != p.in[1] {
			x.buckets[p.in[0]].Tags &^= flowTagsAway
			if second++; second < 100 {
				touched[n+2] = true
			}
			continue
		}
		other := &x.buckets[p.in[1]]
		for free := range bucketPlaces {
			if p.in[0] != p.in[1] && !twice && other.tag(free) == 0 {
				other.set(free, b.line(place), p.tag)
				twice, touched[n+2] = true, true
			}
		}
	}
	if !twice || second == 0 {
		t.Fatalf("a flow is in both buckets: %v, in their second: %d", twice, second)
	}
	if err := o.flows.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.flows, err = Of(o.Datapath).Flows(); err != nil {
		t.Fatal(err)
	}
	sameFlows(t, o.flows, model)
	if o.flows.v4.flows != len(model) {
		t.Errorf("%d flows, want %d", o.flows.v4.flows, len(model))
	}
	for n, f := range put {
		if n > 2 && n%64 > 0 && !touched[n] {
			continue
		}
		_, want := model[f.FlowKey]
		for _, build := range datapathtest.Builds {
			p := udpBetween(member4, distant4, f.Tuple.SrcPort, f.Tuple.DstPort, 20)
			if _, got := o.one(build, o.Frame("lan", p.Bytes())); (got == state.ForwardFlow) != want {
				t.Errorf("%s: %s met %s, it is there: %v", build, f.Tuple, got, want)
			}
		}
	}
	if n, err := o.put(put); err != nil { // both that were lost find room
		t.Fatal(n, err)
	}
}
