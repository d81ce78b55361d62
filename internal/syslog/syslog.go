// Package syslog is the only door to a collector of logs on the network (RFC
// 5424, over UDP by RFC 5426 or TCP by RFC 6587 with octet counting).
package syslog

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leodido/go-syslog/v4/rfc5424"
)

// Sender sends messages to one collector. A message that cannot be sent is
// lost, and counted: nobody waits for a collector.
type Sender struct {
	network, address string
	host             string
	queue            chan []byte
	lost             atomic.Uint64
	done             chan struct{}
}

const (
	priority = 16*8 + 6 // local0, informational (RFC 5424 section 6.2.1)
	waiting  = 65536    // messages
	patience = 5 * time.Second
)

// Parse reads where to send, like udp://192.0.2.5:514.
func Parse(text string) (network, address string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "udp" && u.Scheme != "tcp" || u.Path != "" {
		return "", "", fmt.Errorf("%q is no collector", text)
	}
	if _, err := net.ResolveUDPAddr("udp", u.Host); err != nil || u.Port() == "" {
		return "", "", fmt.Errorf("%q has no address and port", text)
	}
	return u.Scheme, u.Host, nil
}

// Open starts a sender.
func Open(to string) (*Sender, error) {
	network, address, err := Parse(to)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "-"
	}
	s := &Sender{network: network, address: address, host: host, queue: make(chan []byte, waiting), done: make(chan struct{})}
	go s.run()
	return s, nil
}

// Send hands a message on; id says of which kind it is.
func (s *Sender) Send(at time.Time, id, text string) {
	m := &rfc5424.SyslogMessage{}
	m.SetPriority(priority)
	m.SetVersion(1)
	m.SetTimestamp(at.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	m.SetHostname(s.host)
	m.SetAppname("weft")
	m.SetProcID(strconv.Itoa(os.Getpid()))
	m.SetMsgID(id)
	m.SetMessage(text)
	line, err := m.String()
	if err != nil {
		s.lost.Add(1)
		return
	}
	if s.network == "tcp" {
		line = strconv.Itoa(len(line)) + " " + line
	}
	select {
	case s.queue <- []byte(line):
	default:
		s.lost.Add(1)
	}
}

// Lost is how many messages could not be sent.
func (s *Sender) Lost() uint64 { return s.lost.Load() }

// Close sends what waits, as far as that goes at once, and ends.
func (s *Sender) Close() {
	close(s.queue)
	<-s.done
}

func (s *Sender) run() {
	defer close(s.done)
	var conn net.Conn
	var retry time.Time
	for line := range s.queue {
		if conn == nil && time.Now().After(retry) {
			var err error
			if conn, err = net.DialTimeout(s.network, s.address, patience); err != nil {
				conn, retry = nil, time.Now().Add(patience)
			}
		}
		if conn == nil {
			s.lost.Add(1)
			continue
		}
		_ = conn.SetWriteDeadline(time.Now().Add(patience))
		if _, err := conn.Write(line); err != nil {
			s.lost.Add(1)
			_ = conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		_ = conn.Close()
	}
}
