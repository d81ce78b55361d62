package guest

import (
	"encoding/json"
	"io"
	"net"
	"sync"
	"time"
)

// clientPatience is how long a client of the supervisor may block all others by not
// reading.
const clientPatience = 10 * time.Second

// screen copies the output of the guest's console to the log and to the attached
// clients, and their input to the guest.
type screen struct {
	log io.Writer

	mu       sync.Mutex
	guest    net.Conn
	watchers map[net.Conn]bool
}

func newScreen(log io.Writer) *screen {
	return &screen{log: log, watchers: map[net.Conn]bool{}}
}

// connect takes the console of a machine that starts.
func (s *screen) connect(guest net.Conn) {
	s.mu.Lock()
	s.guest = guest
	s.mu.Unlock()
	go s.relay(guest)
}

// Write types on the console of the machine that runs.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	guest := s.guest
	s.mu.Unlock()
	if guest != nil {
		guest.Write(b) // into nothing while the machine restarts
	}
	return len(b), nil
}

func (s *screen) relay(guest net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := guest.Read(buf)
		if err != nil {
			return
		}
		s.log.Write(buf[:n])
		s.show(buf[:n])
	}
}

func (s *screen) show(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.SetWriteDeadline(time.Now().Add(clientPatience))
		if _, err := w.Write(b); err != nil {
			delete(s.watchers, w)
			w.Close()
		}
	}
}

func (s *screen) attach(conn net.Conn) {
	s.mu.Lock()
	s.watchers[conn] = true
	s.mu.Unlock()
	io.Copy(s, conn)
	s.mu.Lock()
	delete(s.watchers, conn)
	s.mu.Unlock()
	conn.Close()
}

// switchboard connects any number of clients to the one agent: it renumbers their
// commands and sends each answer to its client.
type switchboard struct {
	mu       sync.Mutex
	guest    net.Conn
	cut      func() error // ends the machine at once
	again    bool         // it is to be started again
	clients  map[*client]bool
	calls    map[uint64]call // by the switchboard's number
	last     uint64
	notified message // the state that every client gets: ready, or an error
}

type client struct {
	conn net.Conn
	out  *json.Encoder
}

type call struct {
	client *client
	id     uint64 // the client's number
}

func newSwitchboard() *switchboard {
	return &switchboard{clients: map[*client]bool{}, calls: map[uint64]call{}}
}

// connect takes the control line of a machine that starts.
func (s *switchboard) connect(guest net.Conn, cut func() error) {
	s.mu.Lock()
	s.guest, s.cut, s.again = guest, cut, false
	s.mu.Unlock()
	go s.relay(guest)
}

// relay forwards the agent's messages.
func (s *switchboard) relay(guest net.Conn) {
	in := json.NewDecoder(guest)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			return
		}
		s.fromGuest(m)
	}
}

func (s *switchboard) fromGuest(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Reboot {
		s.leave()
		return
	}
	if m.ID == 0 {
		s.notifyAll(m)
		return
	}
	c, ok := s.calls[m.ID]
	if !ok {
		return // its client has left
	}
	if m.Exit != nil || m.Error != "" {
		delete(s.calls, m.ID)
	}
	m.ID = c.id
	s.notify(c.client, m)
}

// leave is called when the machine is about to start again: commands in it have no
// end that could be known.
func (s *switchboard) leave() {
	s.again, s.notified = true, message{}
	for number, c := range s.calls {
		s.notify(c.client, message{ID: c.id, Error: restartsNow})
		delete(s.calls, number)
	}
}

// restarts reports whether a machine that has ended is to be started again.
func (s *switchboard) restarts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again
}

func (s *switchboard) notifyAll(m message) {
	s.notified = m
	for c := range s.clients {
		s.notify(c, m)
	}
}

func (s *switchboard) notify(c *client, m message) {
	c.conn.SetWriteDeadline(time.Now().Add(clientPatience))
	if err := c.out.Encode(m); err != nil {
		c.conn.Close() // serve then forgets it
	}
}

// died notifies every client, as the last message.
func (s *switchboard) died(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyAll(message{Died: how})
}

// serve forwards one client's messages until it leaves; commands that it left
// running are ended.
func (s *switchboard) serve(conn net.Conn) {
	c := &client{conn: conn, out: json.NewEncoder(conn)}
	s.mu.Lock()
	s.clients[c] = true
	if s.notified.Ready || s.notified.Error != "" || s.notified.Died != "" {
		s.notify(c, s.notified)
	}
	s.mu.Unlock()

	in := json.NewDecoder(conn)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			break
		}
		s.toGuest(c, m)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	for number, call := range s.calls {
		if call.client == c {
			delete(s.calls, number)
			s.say(message{ID: number, Kill: true})
		}
	}
	conn.Close()
}

func (s *switchboard) toGuest(c *client, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Reset {
		s.leave()
		s.cut()
		return
	}
	if m.Run != nil && !s.notified.Ready {
		s.notify(c, message{ID: m.ID, Error: "the guest is not ready"})
		return
	}
	if m.Run != nil {
		s.last++
		s.calls[s.last] = call{client: c, id: m.ID}
		s.say(message{ID: s.last, Run: m.Run})
		return
	}
	for number, call := range s.calls {
		if call.client == c && call.id == m.ID {
			m.ID = number
			s.say(m)
			return
		}
	}
}

// say writes to the agent; the end of a guest is noticed elsewhere.
func (s *switchboard) say(m message) {
	line, err := json.Marshal(m)
	if err != nil {
		return
	}
	if s.guest != nil {
		s.guest.Write(append(line, '\n'))
	}
}
