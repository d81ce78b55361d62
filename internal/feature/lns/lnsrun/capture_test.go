package lnsrun

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"weft/internal/feature/lns"

	"github.com/gopacket/gopacket/pcapgo"

	"weft/wire/ppp"
)

func TestACaptureIsAPcapFileWithDirections(t *testing.T) {
	c := &capture{packets: make(chan captured, 4)}
	at := time.Unix(1_700_000_000, 123456789)
	lcp := ppp.AppendFrame(nil, ppp.LCP, ppp.Packet{Code: ppp.EchoRequest, ID: 1}.Marshal())
	ip := ppp.AppendFrame(nil, ppp.IPv4, make([]byte, 40))
	for range 2 { // more than the queue holds: put does not block
		c.put(captured{at, true, len(lcp), lcp})
		c.put(captured{at.Add(time.Second), false, 1504, ip})
		c.put(captured{at, true, len(lcp), lcp})
	}
	var out bytes.Buffer
	if err := c.write(context.Background(), lns.CaptureOrder{Packets: 3, For: time.Minute}, &out); err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewReader(&out)
	if err != nil || r.LinkType() != linkPPPWithDirection {
		t.Fatalf("%v, %v", r, err)
	}
	for i, want := range []struct {
		way    byte
		b      []byte
		length int
		at     time.Time
	}{{0, lcp, len(lcp) + 1, at}, {1, ip, 1505, at.Add(time.Second)}, {0, lcp, len(lcp) + 1, at}} {
		b, info, err := r.ReadPacketData()
		if err != nil || b[0] != want.way || !bytes.Equal(b[1:], want.b) || info.Length != want.length || !info.Timestamp.Equal(want.at) {
			t.Errorf("packet %d: %x %+v %v", i, b, info, err)
		}
	}
	if _, _, err := r.ReadPacketData(); err != io.EOF {
		t.Errorf("behind the last packet: %v", err)
	}
	// it ends when its time is over, or its reader goes away
	begun := time.Now()
	if err := c.write(context.Background(), lns.CaptureOrder{Packets: 9, For: 10 * time.Millisecond}, io.Discard); err != nil || time.Since(begun) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.write(ctx, lns.CaptureOrder{Packets: 9, For: time.Hour}, io.Discard); err != nil {
		t.Error(err)
	}
}
