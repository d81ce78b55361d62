package aaa

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"layeh.com/radius"
)

// faulty panics at the first order.
type faulty struct {
	desk
	calls atomic.Int32
}

func (f *faulty) Disconnect(m Match) int {
	if f.calls.Add(1) == 1 {
		panic("an order that weft cannot bear")
	}
	return f.desk.Disconnect(m)
}

// The library carries each order out in a goroutine of its own: a panic there would end
// the process.
func TestAnOrderAtWhichWeftPanicsIsLost(t *testing.T) {
	issuers := []Issuer{{Client: netip.MustParsePrefix("127.0.0.0/8"), Secret: "with RADIUS", Unsigned: true}}
	at := netip.MustParseAddr("127.0.9.11")
	d, err := ListenDynamic(t.Context(), at, func() []Issuer { return issuers }, lns, &faulty{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	// it is lost as if by the network: the client asks again
	client := radius.Client{Retry: 200 * time.Millisecond}
	answer, err := client.Exchange(ctx, packet(radius.CodeDisconnectRequest, "with RADIUS", alice), net.JoinHostPort(at.String(), "3799"))
	if err != nil || answer.Code != radius.CodeDisconnectACK {
		t.Fatal(answer, err)
	}
	if err := d.Fault(); err == nil || !strings.Contains(err.Error(), "cannot bear") {
		t.Errorf("it says %v", err)
	}
}
