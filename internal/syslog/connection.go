package syslog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"weft/internal/task"
)

// connection is one to a collector. A collector says nothing: when it can be
// read from, it has gone, which writing would notice one message too late.
type connection struct {
	net.Conn
	gone chan error // closed or filled when it has
}

var errGone = errors.New("the collector has closed the connection")

func (s *Sender) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	var conn net.Conn
	var err error
	if s.network == "tls" {
		var config *tls.Config
		if config, err = s.tls(); err == nil {
			conn, err = (&tls.Dialer{NetDialer: &d, Config: config}).DialContext(ctx, "tcp", s.address)
		}
	} else {
		conn, err = d.DialContext(ctx, s.network, s.address)
	}
	if err != nil {
		return nil, fmt.Errorf("reach the collector %s: %w", s.settings.To, err)
	}
	c := &connection{conn, make(chan error, 1)}
	if s.network != "udp" {
		task.Go(c.watch)
	}
	return c, nil
}

// tls reads the authority each time: a new one is used without a word.
func (s *Sender) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.name} // RFC 5425 section 4.2, RFC 9662
	if s.settings.CA == "" {
		return config, nil
	}
	text, err := os.ReadFile(s.settings.CA)
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", s.settings.CA)
	}
	return config, nil
}

// watch throws away what the collector says, until it has gone.
func (c *connection) watch() {
	_, err := io.Copy(io.Discard, c.Conn)
	if err == nil {
		err = errGone
	}
	c.gone <- err
}

func (c *connection) write(line []byte) error {
	select {
	case err := <-c.gone:
		return err
	default:
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.Write(line)
	return err
}

func (c *connection) close() { _ = c.Conn.Close() } // it is of no use any more
