package natsbus

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/bus"
	"weft/internal/task"
)

// Bounds of connections to the own server. NATS sees only peers that have proven
// who they are: it would count strangers against a limit for all.
const (
	helloTime     = 5 * time.Second // for the handshake, keys and name
	mostStrangers = 64              // that have not proven themselves yet, besides peers' own addresses
	mostOfSource  = 8               // of one address, or /64 of IPv6
	mostOfPeer    = 4               // connections of a peer that has
	mostConnect   = 4 << 10         // bytes of the line in which a client says who it is
)

// gate accepts the connections to the own server.
type gate struct {
	guard    *guard
	tls      *tls.Config // nil on loopback, with a password
	listener net.Listener
	inside   func() (net.Conn, error) // a connection to the server
	refused  atomic.Uint64
	tasks    task.Tasks

	mu     sync.Mutex
	closed bool
	early  []*guest            // oldest first
	peers  map[string][]*guest // by name, oldest first
}

// guest is a connection.
type guest struct {
	net.Conn
	source netip.Prefix
	known  bool // it comes from the address of a peer
}

// listen opens the gate. It does not accept before serve.
func (g *gate) listen(at netip.AddrPort) error {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return fmt.Errorf("listen on %s: %w", at, err)
	}
	g.listener, g.peers = l, map[string][]*guest{}
	return nil
}

// serve accepts connections until close.
func (g *gate) serve(ctx context.Context) {
	for {
		conn, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors: some will be free again
			if !task.Pause(ctx, shortPause) {
				return
			}
			continue
		}
		if one := g.admit(conn); one != nil {
			g.tasks.Go(func() { g.welcome(one) })
		}
	}
}

// close ends the gate and all connections.
func (g *gate) close() {
	g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for _, one := range g.early {
		one.Close()
	}
	for _, list := range g.peers {
		for _, one := range list {
			one.Close()
		}
	}
	g.mu.Unlock()
	g.tasks.Wait()
}

// admit takes a connection in. One from a source that has too many, and one of too
// many in all, replaces the oldest: who holds connections open keeps no peer out.
func (g *gate) admit(conn net.Conn) *guest {
	one := &guest{Conn: conn}
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		addr := at.AddrPort().Addr().Unmap()
		bits := addr.BitLen()
		if addr.Is6() {
			bits = 64
		}
		one.source, _ = addr.WithZone("").Prefix(bits)
		for _, p := range g.guard.peers {
			one.known = one.known || p.Address.Addr() == addr
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		conn.Close()
		return nil
	}
	g.makeRoom(mostOfSource, func(o *guest) bool { return o.source == one.source })
	if !one.known {
		g.makeRoom(mostStrangers, func(o *guest) bool { return !o.known })
	}
	g.early = append(g.early, one)
	return one
}

// makeRoom closes the oldest of some that have no keys yet, if there are so many.
// The caller has the lock.
func (g *gate) makeRoom(most int, some func(*guest) bool) {
	n, oldest := 0, -1
	for i, o := range g.early {
		if some(o) {
			if n++; oldest < 0 {
				oldest = i
			}
		}
	}
	if n >= most {
		g.early[oldest].Close()
		g.early = slices.Delete(g.early, oldest, oldest+1)
	}
}

// welcome handles a connection until it ends.
func (g *gate) welcome(one *guest) {
	defer one.Close()
	defer g.leave(one)
	one.SetDeadline(time.Now().Add(helloTime))
	outer, inner, name, line, err := g.identify(one)
	if inner != nil {
		defer inner.Close()
	}
	if err != nil {
		g.refused.Add(1)
		return
	}
	if !g.enter(one, name) {
		return
	}
	one.SetDeadline(time.Time{})
	if _, err := io.WriteString(inner, line); err != nil {
		return
	}
	var group task.Tasks
	group.Go(func() {
		defer outer.Close()
		io.Copy(outer, inner)
	})
	io.Copy(inner, outer)
	inner.Close()
	group.Wait()
}

// outside is a connection after its handshake, with what was read ahead.
type outside struct {
	net.Conn
	r *bufio.Reader
}

func (o outside) Read(b []byte) (int, error) { return o.r.Read(b) }

var errStranger = errors.New("not a peer")

// identify finds out who has connected. A connection to the server is made after
// the certificate has been verified. line is what the client has said who it is.
func (g *gate) identify(one *guest) (outer, inner net.Conn, name, line string, err error) {
	outer = one
	var certificate *tls.ConnectionState
	if g.tls != nil {
		secured := tls.Server(one, g.tls)
		if err := secured.Handshake(); err != nil {
			return nil, nil, "", "", err
		}
		state := secured.ConnectionState()
		outer, certificate = secured, &state
		if !slices.ContainsFunc(g.guard.peers, func(p bus.Peer) bool { return named(certificate, p.Name) }) {
			return nil, nil, "", "", errStranger
		}
	}
	if inner, err = g.inside(); err != nil {
		return nil, nil, "", "", err
	}
	inner.SetDeadline(time.Now().Add(helloTime))
	info, err := bufio.NewReader(inner).ReadString('\n') // the server says no more before it is answered
	if err != nil {
		return nil, inner, "", "", err
	}
	if _, err := io.WriteString(outer, info); err != nil {
		return nil, inner, "", "", err
	}
	r := bufio.NewReaderSize(outer, mostConnect)
	text, err := r.ReadSlice('\n') // an error if it is longer
	if err != nil {
		return nil, inner, "", "", err
	}
	line = string(text)
	var said struct{ User, Pass string }
	body, is := strings.CutPrefix(line, "CONNECT ")
	if !is || json.Unmarshal([]byte(body), &said) != nil || !g.guard.admits(said.User, said.Pass, certificate) {
		return nil, inner, "", "", errStranger
	}
	inner.SetDeadline(time.Time{})
	return outside{outer, r}, inner, said.User, line, nil
}

// enter moves a connection to those of a peer.
func (g *gate) enter(one *guest, name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.early = slices.DeleteFunc(g.early, func(o *guest) bool { return o == one })
	if g.closed {
		return false
	}
	list := append(g.peers[name], one)
	if len(list) > mostOfPeer { // it has begun again before this router has seen it go
		list[0].Close()
		list = slices.Delete(list, 0, 1)
	}
	g.peers[name] = list
	return true
}

func (g *gate) leave(one *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is := func(o *guest) bool { return o == one }
	g.early = slices.DeleteFunc(g.early, is)
	for name, list := range g.peers {
		g.peers[name] = slices.DeleteFunc(list, is)
	}
}

// connected is how many connections of peers there are.
func (g *gate) connected() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, list := range g.peers {
		n += len(list)
	}
	return n
}
