// Package syslog is the only door to a collector of logs on the network (RFC
// 5424, over UDP by RFC 5426, TCP by RFC 6587 with octet counting, or TLS by
// RFC 5425).
package syslog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"weft/internal/task"
)

// Settings say where to send.
type Settings struct {
	To string // like udp://192.0.2.5:514, tls://192.0.2.5:6514#name
	CA string // a file with the authority of a TLS collector; empty: the system's
}

// Status is how a collector is.
type Status struct {
	Sent    uint64 // messages that the network took
	Lost    uint64 // that found no room, or could not be sent
	Waiting int
	Error   string // why it cannot be reached; empty: it can, as far as is known
}

// Sender sends messages to one collector. It does not block its callers: messages wait in
// a queue; a message that finds the queue full is lost, and counted.
type Sender struct {
	target
	settings Settings
	host     string
	queue    chan []byte
	sent     atomic.Uint64
	lost     atomic.Uint64
	trouble  atomic.Pointer[string]
	ctx      context.Context // ends with what Close has patience for
	cancel   context.CancelFunc
	done     chan struct{}
}

const (
	priority = 16*8 + 6 // local0, informational (RFC 5424 section 6.2.1)
	waiting  = 65536    // messages, of some 200 bytes
	patience = 5 * time.Second
	farewell = time.Second // for what waits when the sender ends
)

// pauses between attempts to reach a collector
const (
	shortPause = 250 * time.Millisecond
	longPause  = 5 * time.Second
)

// target is where messages go.
type target struct{ network, address, name string }

// Parse reads where to send, like udp://192.0.2.5:514.
func Parse(text string) (network, address string, err error) {
	t, err := parse(text)
	return t.network, t.address, err
}

func parse(text string) (t target, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "udp" && u.Scheme != "tcp" && u.Scheme != "tls" || u.Path != "" || u.User != nil || u.RawQuery != "" {
		return t, fmt.Errorf("%q is no collector", text)
	}
	if _, err := net.ResolveUDPAddr("udp", u.Host); err != nil || u.Port() == "" {
		return t, fmt.Errorf("%q has no address and port", text)
	}
	t = target{u.Scheme, u.Host, u.Fragment}
	if t.name == "" {
		t.name = u.Hostname()
	} else if u.Scheme != "tls" {
		return t, fmt.Errorf("%q has a name, which only tls uses", text)
	}
	return t, nil
}

// Open starts a sender.
func Open(s Settings) (*Sender, error) {
	to, err := parse(s.To)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "" // which is allowed
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Sender{target: to, settings: s, host: host, queue: make(chan []byte, waiting), ctx: ctx, cancel: cancel, done: make(chan struct{})}
	var tasks task.Tasks
	tasks.Again("syslog to "+s.To, r.run)
	task.Go(func() {
		tasks.Wait()
		close(r.done)
	})
	return r, nil
}

// Send hands a message on; id says of which kind it is.
func (s *Sender) Send(at time.Time, id, text string) {
	line := message{at: at, host: s.host, app: "weft", process: strconv.Itoa(os.Getpid()), id: id, text: text}.String()
	if s.network != "udp" {
		line = strconv.Itoa(len(line)) + " " + line
	}
	select {
	case s.queue <- []byte(line):
	default:
		s.lost.Add(1)
	}
}

// Status returns how the collector is.
func (s *Sender) Status() Status {
	t := Status{Sent: s.sent.Load(), Lost: s.lost.Load(), Waiting: len(s.queue)}
	if why := s.trouble.Load(); why != nil {
		t.Error = *why
	}
	return t
}

// Close sends what waits, as far as that goes at once, and ends.
func (s *Sender) Close() {
	close(s.queue)
	late := time.AfterFunc(farewell, s.cancel)
	<-s.done
	late.Stop()
	s.cancel()
}

func (s *Sender) run() {
	var c *connection
	for line := range s.queue {
		for sent := false; !sent; {
			if c == nil {
				if c = s.connect(); c == nil {
					s.lost.Add(1) // the sender ends
					break
				}
			}
			err := c.write(line)
			if sent = err == nil; sent {
				s.sent.Add(1)
				continue
			}
			s.fails(err)
			c.close()
			c = nil
			if s.network == "udp" {
				s.lost.Add(1) // port unreachable; this message or the one before was lost
				break
			}
		}
	}
	if c != nil {
		c.close()
	}
}

// connect tries until there is a connection; nil when the sender ends.
func (s *Sender) connect() *connection {
	for pause := shortPause; s.ctx.Err() == nil; pause = min(2*pause, longPause) {
		c, err := s.dial(s.ctx)
		if err == nil {
			s.trouble.Store(nil)
			return c
		}
		s.fails(err)
		select {
		case <-s.ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

func (s *Sender) fails(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	text := err.Error()
	s.trouble.Store(&text)
}
