package rarun

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weft/internal/feature/ra"
	"weft/wire/dhcp6"
)

func request(t *testing.T, kind dhcp6.Type, client string) []byte {
	t.Helper()
	b, err := (&dhcp6.Message{Type: kind, ClientID: []byte(client)}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A host that pretends to be thousands of clients, with leases and without, does not keep
// a client that has a lease from being heard.
func TestAFloodOfClientsLeavesRoomForThoseThatRenew(t *testing.T) {
	from := netip.MustParseAddr("fe80::5")
	lease := ra.Lease{Binding: ra.Binding{Client: "has a lease", Kind: ra.KindAddress}, Prefix: netip.MustParsePrefix("2001:db8::5/128"), Until: time.Unix(1e9, 0)}
	other := lease
	other.Client = "has one too"
	r := newRequests([]ra.Lease{lease, other})
	for i := range uint32(10 * waitingMost) {
		r.put(request(t, dhcp6.Solicit, string(binary.BigEndian.AppendUint32(nil, i))), from)
		r.put(request(t, dhcp6.Renew, other.Client), from)
	}
	buffer := request(t, dhcp6.Renew, lease.Client)
	r.put(buffer, from)
	clear(buffer) // the socket's is used again
	if len(r.others()) != waitingMost || len(r.bound()) != waitingClient+1 {
		t.Fatalf("%d and %d wait", len(r.others()), len(r.bound()))
	}
	for range waitingClient {
		r.taken(<-r.bound())
	}
	q := <-r.bound()
	if m, err := dhcp6.Parse(q.message); err != nil || string(m.ClientID) != lease.Client || m.Type != dhcp6.Renew || q.from != from {
		t.Errorf("%+v, %v", m, err)
	}
	r.taken(q)
	if len(r.waiting) != 0 {
		t.Errorf("%v are counted", r.waiting)
	}
	// whose lease ended waits with the others, which have no room
	r.note([]ra.Change{{Lease: lease, Gone: true}})
	if r.put(request(t, dhcp6.Renew, lease.Client), from); len(r.bound()) != 0 || len(r.clients) != 1 {
		t.Errorf("%d wait, %d have leases", len(r.bound()), len(r.clients))
	}
}
