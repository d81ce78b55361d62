package nat64table

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// wayOut returns the link address that a frame of the bypass leaves for.
func (b *bench) wayOut(program string, f flow) []byte {
	b.T.Helper()
	res := b.Run(program, "lan", b.Frame("lan", f.packet().Bytes()))[0]
	if res.Err != nil || len(res.Frame) < 14 {
		b.T.Fatalf("%d bytes, %v, counted %v", len(res.Frame), res.Err, res.Counted)
	}
	return bytes.Clone(res.Frame[:6])
}

// The answer of the kernel's routing table is kept for a moment, for a pair of
// addresses: others ask themselves, and a change counts soon.
func TestAWayOutIsKeptForAMomentAndForOnePair(t *testing.T) {
	b := newStateful(t, shared)
	first, second := flow{client6, "[64:ff9b:1::8.8.8.8]:4000", 17, 0}, flow{client6, "[64:ff9b:1::9.9.9.9]:4000", 17, 0}
	if got := b.wayOut("ingress_xdp", first); !bytes.Equal(got, datapathtest.Mac4[:]) {
		t.Fatalf("the first packet leaves for %x, want %x", got, datapathtest.Mac4)
	}
	moved := [6]byte{2, 0, 0, 0, 4, 5}
	_, one, err := net.ParseCIDR("9.9.9.9/32")
	if err != nil {
		t.Fatal(err)
	}
	b.In(func() error {
		via := net.IPv4(198, 51, 100, 8)
		index := b.Links["wan"].Index
		if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: index, IP: via, HardwareAddr: moved[:], State: netlink.NUD_PERMANENT}); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: one, Gw: via})
	})
	if got := b.wayOut("ingress_xdp", second); !bytes.Equal(got, moved[:]) {
		t.Errorf("a packet to another host leaves for %x, want %x", got, moved)
	}
	b.In(func() error {
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: b.Links["wan"].Index, IP: net.IPv4(198, 51, 100, 9), HardwareAddr: moved[:], State: netlink.NUD_PERMANENT})
	})
	// no time is asserted, but that it ends
	deadline := time.Now().Add(20 * time.Second)
	for !bytes.Equal(b.wayOut("ingress_xdp", first), moved[:]) {
		if time.Now().After(deadline) {
			t.Fatal("packets still leave for where the neighbour has been")
		}
		time.Sleep(time.Millisecond)
	}
}

// A piece of the short way's table must lie in memory that is mapped in huge pages, and
// every piece must be there.
func TestThePiecesOfTheShortWayAreThereAndSmall(t *testing.T) {
	b := newBench(t, shared, parts()...)
	outer := b.Table(fastSets)
	fragments, err := datapath.InnerMaps(outer)
	if err != nil {
		t.Fatal(err)
	}
	defer datapath.CloseInner(fragments)
	if len(fragments) != int(outer.MaxEntries()) || len(fragments) != int(fastFragments(b.Datapath.Sizes())) {
		t.Errorf("%d pieces of %d, want %d", len(fragments), outer.MaxEntries(), fastFragments(b.Datapath.Sizes()))
	}
	const most = 32 << 10 // PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER: above it the kernel maps single pages
	for at, m := range fragments {
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		if bytes, ok := info.Memlock(); !ok || bytes > most {
			t.Errorf("piece %d takes %d bytes", at, bytes)
		}
	}
	if err := fillFast(outer, &ebpf.MapSpec{Type: ebpf.Hash}); err != nil {
		t.Errorf("what is there is made once more: %v", err)
	}
}

func TestTheShortWayHasRoomForEverySession(t *testing.T) {
	for _, sessions := range []int{0, 1, 4000, 65536, 1 << 20, 1_500_000, 1 << 22} {
		n := int(fastFragments(state.Tables{Sessions: sessions}))
		if n&(n-1) != 0 {
			t.Errorf("%d sessions: %d pieces are no power of two", sessions, n)
		}
		if room := 3 * nat64FastSets * n; room < 2*sessions || room > 3*nat64FastSets+8*sessions {
			t.Errorf("%d sessions: room for %d", sessions, room)
		}
	}
}
