package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"weft/internal/lab/probe"
)

func (l *Lab) checkPing(ctx context.Context, c Check, r *Result) error {
	if c.Count == 0 {
		c.Count = 3
	}
	e, err := l.ping(ctx, c)
	r.Tried = fmt.Sprintf("ping %s from %s, %s", c.To, c.From, times(c.Count))
	if c.Size > 0 {
		r.Tried += fmt.Sprintf(", %d bytes each", c.Size)
	}
	if err != nil {
		return err
	}
	r.fact("sent", e.Sent)
	r.fact("received", e.Received)
	if e.Received > 0 {
		r.fact("rtt_mean_ms", e.Mean.Seconds()*1000)
		r.fact("hop_limit", e.HopLimit)
	}
	want := c.Count
	if c.Fails {
		want = 0
	}
	r.OK = e.Received == want
	switch {
	case e.Received == 0:
		r.Outcome = "nothing came back"
	default:
		r.Outcome = fmt.Sprintf("%d of %d came back, in %s on average, hop limit %d", e.Received, e.Sent, milliseconds(e.Mean), e.HopLimit)
	}
	if e.Problem != "" && e.Problem != "no reply" {
		r.fact("problem", e.Problem)
		r.Outcome += ": " + e.Problem
	}
	return nil
}

// answerTime is how long an expected answer may take: one that is late because the
// machine is busy is not lost.
const answerTime = 10 * time.Second

func (l *Lab) ping(ctx context.Context, c Check) (probe.Echo, error) {
	args := []string{"ping", "--count", strconv.Itoa(c.Count)}
	if c.Size > 0 {
		args = append(args, "--size", strconv.Itoa(c.Size))
	}
	if !c.Fails {
		args = append(args, "--timeout", answerTime.String())
	}
	var e probe.Echo
	err := l.probe(ctx, c.From, &e, append(args, c.To.String())...)
	return e, err
}

// server is a `weft probe serve` that runs in a node.
type server struct {
	probe.Ports
	lifeline io.Closer
	ended    chan error
}

// serve starts a server. It ends when stopped, when ctx ends, or when this
// process does.
func (l *Lab) serve(ctx context.Context, node string) (*server, error) {
	c := l.command(ctx, node, []string{"{weft}", "probe", "serve"})
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.spaces[node].Start(c); err != nil {
		return nil, fmt.Errorf("start server in %s: %w", node, err)
	}
	s := &server{lifeline: in, ended: make(chan error, 1)}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.Ports)
	}
	go func() { s.ended <- c.Wait() }()
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("start server in %s: %w", node, err)
	}
	return s, nil
}

func (s *server) stop() {
	s.lifeline.Close()
	<-s.ended
}

func (l *Lab) checkTransfer(ctx context.Context, c Check, r *Result) error {
	if c.Bytes == 0 {
		c.Bytes = 16 << 20
	}
	r.Tried = fmt.Sprintf("TCP from %s to %s at %s, %s each way", c.From, c.To, c.At, c.Bytes)
	s, err := l.serve(ctx, c.At)
	if err != nil {
		return err
	}
	defer s.stop()
	r.OK = true
	var said []string
	for _, d := range []probe.Direction{probe.Download, probe.Upload} {
		t, err := l.move(ctx, c, s, d)
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		r.fact(string(d)+"_bits_per_second", t.BitsPerSecond())
		r.fact(string(d)+"_sha256", t.SHA256)
		r.fact(string(d)+"_same", t.Same)
		said = append(said, fmt.Sprintf("%s %s", d, decimalRate(t.BitsPerSecond())))
		if !t.Same {
			r.OK = false
			said = append(said, "BUT OTHER BYTES ARRIVED")
		}
	}
	if r.OK {
		said = append(said, "every byte the same by SHA-256")
	}
	r.fact("bytes", int64(c.Bytes))
	r.Outcome = strings.Join(said, ", ")
	return nil
}

func (l *Lab) move(ctx context.Context, c Check, s *server, d probe.Direction, more ...string) (probe.Transfer, error) {
	var t probe.Transfer
	args := append([]string{"move", "--direction", string(d), "--bytes", strconv.FormatInt(int64(c.Bytes), 10)}, more...)
	err := l.probe(ctx, c.From, &t, append(args, netip.AddrPortFrom(c.To.Addr, s.TCP).String())...)
	return t, err
}

// udpSizes begin at the empty datagram and end at what fits IPv6's smallest MTU.
func udpSizes() []int { return []int{0, 1, 2, 7, 64, 511, 512, 1000, 1231, 1232} }

func (l *Lab) checkUDP(ctx context.Context, c Check, r *Result) error {
	if len(c.Sizes) == 0 {
		c.Sizes = udpSizes()
	}
	sizes := make([]string, len(c.Sizes))
	for i, n := range c.Sizes {
		sizes[i] = strconv.Itoa(n)
	}
	r.Tried = fmt.Sprintf("UDP from %s to %s at %s, %d sizes from %d to %d bytes", c.From, c.To, c.At, len(sizes), c.Sizes[0], c.Sizes[len(sizes)-1])
	s, err := l.serve(ctx, c.At)
	if err != nil {
		return err
	}
	defer s.stop()
	args := []string{"exchange", "--size", strings.Join(sizes, ","), "--tries", strconv.Itoa(max(c.Tries, 1))}
	if c.Tries <= 1 {
		args = append(args, "--timeout", answerTime.String())
	}
	var d probe.Datagrams
	err = l.probe(ctx, c.From, &d, append(args, netip.AddrPortFrom(c.To.Addr, s.UDP).String())...)
	if err != nil {
		return err
	}
	r.fact("sizes", c.Sizes)
	r.fact("intact", d.Intact)
	r.OK = d.Intact == len(sizes)
	r.Outcome = fmt.Sprintf("%d of %d came back unharmed", d.Intact, len(sizes))
	if d.Again > 0 {
		r.fact("again", d.Again)
		r.Outcome += fmt.Sprintf(", %d sent again", d.Again)
	}
	if d.Problem != "" {
		r.fact("problem", d.Problem)
		r.Outcome += ": " + d.Problem
	}
	return nil
}

func (l *Lab) checkPMTU(ctx context.Context, c Check, r *Result) error {
	if c.Bytes == 0 {
		c.Bytes = 4 << 20
	}
	r.Tried = fmt.Sprintf("packets that must not be fragmented from %s to %s at %s, then TCP", c.From, c.To, c.At)
	// Path MTUs that the sender learnt in earlier checks must not help.
	flush := [][2]string{{"net.ipv4.route.flush", "1"}, {"net.ipv6.route.flush", "1"}}
	if err := l.setSysctls(SetSysctls{c.From, flush}); err != nil {
		return err
	}
	s, err := l.serve(ctx, c.At)
	if err != nil {
		return err
	}
	defer s.stop()
	var p probe.PathMTU
	if err := l.probe(ctx, c.From, &p, "pmtu", netip.AddrPortFrom(c.To.Addr, s.UDP).String()); err != nil {
		return err
	}
	r.fact("first_mtu", p.First)
	r.fact("learnt_mtu", p.Learnt)
	r.fact("confirmed", p.Confirmed)
	if !p.Confirmed {
		return fmt.Errorf("the path swallows packets of %d bytes in silence: %s", p.Learnt, p.Problem)
	}
	if c.MTU != 0 && p.Learnt != c.MTU {
		return fmt.Errorf("%s learnt a path MTU of %d, and should have learnt %d", c.From, p.Learnt, c.MTU)
	}
	if err := l.setSysctls(SetSysctls{c.From, flush}); err != nil {
		return err
	}
	t, err := l.move(ctx, c, s, probe.Upload)
	if err != nil {
		return fmt.Errorf("UDP learnt %d, but TCP: %w", p.Learnt, err)
	}
	r.fact("tcp_path_mtu", t.PathMTU)
	r.fact("tcp_mss", t.MSS)
	r.fact("tcp_same", t.Same)
	r.OK = t.Same
	r.Outcome = fmt.Sprintf("began with %d, learnt %d; TCP moved %s with segments of %d", p.First, p.Learnt, c.Bytes, t.MSS)
	return nil
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
