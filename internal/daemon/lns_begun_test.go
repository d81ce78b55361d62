package daemon_test

import (
	"net"
	"slices"
	"sync"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2866"
)

const sectionOfSubscribers = `
[lns.isp]
listen = ["198.51.100.1"]
lacs = [{ address = "198.51.100.0/24", secret = "between us" }]
radius = [{ server = "198.51.100.9:1812", secret = "with RADIUS" }]
`

// books is the RADIUS server's accounting from now on: it takes all that it hears.
func (w *topology) books(receive func(*radius.Packet)) {
	w.t.Helper()
	var conn net.PacketConn
	err := w.server.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", "198.51.100.9:1813")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	server := radius.PacketServer{
		SecretSource: radius.StaticSecretSource([]byte("with RADIUS")),
		Handler: radius.HandlerFunc(func(a radius.ResponseWriter, r *radius.Request) {
			receive(r.Packet)
			_ = a.Write(r.Response(radius.CodeAccountingResponse))
		}),
	}
	go func() { _ = server.Serve(conn) }()
}

// RADIUS hears that a router begins when it was switched on, and when a section is
// new; not when the daemon is another one: sessions go on (docs/features/lns.md).
func TestARestartOfTheDaemonIsNoNewsForRADIUS(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual()+sectionOfSubscribers)
	var mu sync.Mutex
	var received []string
	w.books(func(p *radius.Packet) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, rfc2866.AcctStatusType_Get(p).String()+" "+rfc2866.AcctSessionID_GetString(p))
	})
	notified := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(received)
	}
	r := w.start()
	eventually(t, "RADIUS receives the router's Accounting-On", func() bool { return len(notified()) > 0 })
	r.stop()
	r = w.start()
	r.kill()
	r = w.start()
	// a new section is announced, and only that one
	w.write(usual() + sectionOfSubscribers + `
[lns.second]
listen = ["2001:db8:1::1"]
lacs = [{ address = "203.0.113.0/24", secret = "between them" }]
radius = [{ server = "198.51.100.9:1812", secret = "with RADIUS" }]
`)
	r.reload()
	eventually(t, "RADIUS receives the section's Accounting-On", func() bool { return slices.Contains(notified(), "Accounting-On on-second") })
	if got, want := notified(), []string{"Accounting-On on-isp", "Accounting-On on-second"}; !slices.Equal(got, want) {
		t.Errorf("RADIUS heard %q, want %q\n%s", got, want, r.log.String())
	}
	r.stop()
}
