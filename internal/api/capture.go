package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weft/internal/feature/lns"
)

func captureQuery(o lns.CaptureOrder) string {
	v := url.Values{"who": {o.Who}, "packets": {strconv.Itoa(o.Packets)}, "for": {o.For.String()}}
	return v.Encode()
}

func orderOf(q url.Values) (lns.CaptureOrder, error) {
	o := lns.CaptureOrder{Who: q.Get("who")}
	var err error
	if o.Packets, err = strconv.Atoi(q.Get("packets")); err == nil {
		o.For, err = time.ParseDuration(q.Get("for"))
	}
	if err != nil {
		return o, fmt.Errorf("read the order: %w", err)
	}
	return o, o.Check()
}

// serveCapture streams a pcap file. It ends with the order, or when the client
// goes away.
func serveCapture(source Subscribers) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		o, err := orderOf(q.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		stream := &streamWriter{w: w, control: http.NewResponseController(w)}
		// the server's own bounds are for short answers
		if err := stream.control.SetReadDeadline(time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.tcpdump.pcap")
		err = source.Capture(q.Context(), o, stream)
		if err != nil && !stream.begun {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// streamWriter hands on what is written at once, and gives up on a client that
// does not read.
type streamWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (s *streamWriter) Write(b []byte) (int, error) {
	s.begun = true
	if err := s.control.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	n, err := s.w.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	return n, err
}

// Capture copies a pcap stream of a subscriber's packets to w.
func Capture(ctx context.Context, socket string, o lns.CaptureOrder, w io.Writer) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://weft/v1/capture?"+captureQuery(o), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(q)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return noDaemon(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("capture packets: %s", strings.TrimSpace(string(why)))
	}
	if _, err := io.Copy(w, response.Body); err != nil && ctx.Err() == nil {
		return fmt.Errorf("capture packets: %w", err)
	}
	return ctx.Err()
}
