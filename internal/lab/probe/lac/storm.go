package lac

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"weft/wire/checksum"
)

// Storm is a power failure at a concentrator: all its sessions come back at once,
// while those of another one continue. It verifies the server's addresses, packets
// and accounting.
type Storm struct {
	Server            netip.AddrPort // where tunnels end
	LocalAddr, Steady netip.AddrPort // of the two concentrators
	RADIUS            netip.AddrPort // where this answers it
	Target            netip.Addr     // answers echo requests, behind the server
	Sessions          int
	Out               io.Writer
}

const (
	steadySessions = 20
	steadyEvery    = 10 * time.Millisecond
	echoes         = 2 // of each session, before and after
	patience       = 20 * time.Second
)

// Run runs it, and keeps the steady sessions going until ctx ends.
func (s Storm) Run(ctx context.Context) error {
	radius, err := ListenRADIUS(s.RADIUS)
	if err != nil {
		return err
	}
	defer radius.Close()
	ledger := ServeRADIUS(radius)
	thrownBefore, err := thrownAway()
	if err != nil {
		return err
	}
	steady, err := startSteady(ctx, s)
	if err != nil {
		return err
	}
	first, err := s.bringUp(ctx, "up")
	if err != nil {
		return err
	}
	before := first.addresses()
	if len(before) != s.Sessions {
		return fmt.Errorf("%d sessions have %d addresses", s.Sessions, len(before))
	}
	if err := s.begun(ctx, ledger, first, s.Sessions+steadySessions); err != nil {
		return err
	}
	if err := s.echo(ctx, first); err != nil {
		return err
	}
	if err := first.Abandon(); err != nil {
		return err
	}
	second, err := s.bringUp(ctx, "back")
	if err != nil {
		return err
	}
	if err := s.compare(before, second, steady); err != nil {
		return err
	}
	if err := s.begun(ctx, ledger, second, 2*s.Sessions+steadySessions); err != nil {
		return err
	}
	if err := s.echo(ctx, second); err != nil {
		return err
	}
	if err := s.accounts(ctx, ledger); err != nil {
		return err
	}
	sent, came, err := steady.pause()
	if err != nil {
		return err
	}
	thrown, err := thrownAway()
	if err != nil {
		return err
	}
	thrown -= thrownBefore
	fmt.Fprintf(s.Out, "steady: %d sessions of another concentrator sent %d packets meanwhile, %d were answered; %d of all packets found no room in a CPU's queue\n", steadySessions, sent, came, thrown)
	for number, at := range steady.unanswered {
		fmt.Fprintf(s.Out, "packet %d, of %s, had no answer\n", number, at.Format(time.StampMicro))
	}
	if sent != came {
		return errors.New("the storm has affected other sessions")
	}
	fmt.Fprintln(s.Out, "done: all is as it should be")
	for ctx.Err() == nil {
		if err := second.Turn(50 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (s Storm) bringUp(ctx context.Context, word string) (*LAC, error) {
	conn, err := Dial(s.LocalAddr, s.Server)
	if err != nil {
		return nil, err
	}
	l := New(conn, TunnelsFor(s.Sessions), s.Sessions)
	took, err := l.BringUp(ctx)
	if err == nil {
		fmt.Fprintf(s.Out, "%s: %d sessions in %d tunnels in %.2f s, %.0f a second; %d messages were said again, %d calls came to nothing at first\n",
			word, s.Sessions, len(l.tunnels), took.Seconds(), float64(s.Sessions)/took.Seconds(), l.Again, l.Ended)
	}
	return l, err
}

// begun waits until RADIUS has received that many Starts: then the server forwards.
func (s Storm) begun(ctx context.Context, ledger *Ledger, l *LAC, want int) error {
	starts := 0
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil; {
		starts = 0
		for _, a := range ledger.Accounts() {
			starts += a.Starts
		}
		if starts >= want {
			return nil
		}
		if err := l.Turn(50 * time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("RADIUS received %d Starts, not %d", starts, want)
}

func (l *LAC) addresses() map[netip.Addr]uint16 {
	m := map[netip.Addr]uint16{}
	for _, s := range l.Sessions {
		m[s.Address()] = s.ID
	}
	return m
}

// compare checks that each login has the address that it had, and no other login has
// it.
func (s Storm) compare(before map[netip.Addr]uint16, now *LAC, steady *steadies) error {
	all := now.addresses()
	if len(all) != s.Sessions {
		return fmt.Errorf("after the storm %d sessions have %d addresses", s.Sessions, len(all))
	}
	moved := 0
	for a, id := range all {
		if before[a] != id {
			moved++
		}
	}
	for a := range steady.lac.addresses() {
		if all[a] != 0 {
			return fmt.Errorf("%s is given twice", a)
		}
	}
	fmt.Fprintf(s.Out, "addresses: %d, none twice, %d not the ones from before\n", len(all), moved)
	if moved > 0 {
		return errors.New("subscribers have lost their addresses")
	}
	return nil
}

// echo makes each subscriber ping the target, a few at a time.
func (s Storm) echo(ctx context.Context, l *LAC) error {
	came := map[uint16]int{}
	total := 0
	l.Data = func(x *Session, ip []byte) {
		if isEchoReply(ip, s.Target, x) {
			came[x.ID]++
			total++
		}
	}
	defer func() { l.Data = nil }()
	end := time.Now().Add(patience)
	// as many at a time as a device's queue holds
	wait := func(sent, atMost int) error {
		for sent-total > atMost && time.Now().Before(end) && ctx.Err() == nil {
			if err := l.Turn(10 * time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}
	for i, x := range l.Sessions {
		for n := range echoes {
			l.Send(x, ping(x, s.Target, uint16(n)))
		}
		if err := wait(echoes*(i+1), 200); err != nil {
			return err
		}
	}
	if err := wait(echoes*len(l.Sessions), 0); err != nil {
		return err
	}
	if total != echoes*len(l.Sessions) {
		return fmt.Errorf("of %d packets %d were answered", echoes*len(l.Sessions), total)
	}
	return nil
}

// accounts waits until RADIUS has received the Stop of every session that lost its
// power, and compares.
func (s Storm) accounts(ctx context.Context, ledger *Ledger) error {
	var starts, stops int
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		starts, stops = 0, 0
		for id, a := range ledger.Accounts() {
			starts, stops = starts+a.Starts, stops+a.Stops
			if a.Starts > 1 || a.Stops > 1 {
				return fmt.Errorf("account %s of %s was begun %d times and ended %d times", id, a.Login, a.Starts, a.Stops)
			}
			if a.Stops == 1 && (a.Packets != echoes || a.Replies != echoes) {
				return fmt.Errorf("account %s of %s says %d and %d packets, and it was %d and %d", id, a.Login, a.Packets, a.Replies, echoes, echoes)
			}
		}
		if starts >= 2*s.Sessions+steadySessions && stops >= s.Sessions {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("RADIUS received %d Starts and %d Stops", starts, stops)
		}
	}
	fmt.Fprintf(s.Out, "accounts: %d begun, %d ended, with %d packets each way in every one\n", starts, stops, echoes)
	if starts != 2*s.Sessions+steadySessions || stops != s.Sessions {
		return errors.New("there are too many accounts")
	}
	return nil
}

// steadies are the sessions that a storm must not disturb.
type steadies struct {
	lac        *LAC
	sent, came int
	unanswered map[uint16]time.Time // numbers of packets, and when they were sent
	stop       chan struct{}
	stopped    chan error
}

func startSteady(ctx context.Context, s Storm) (*steadies, error) {
	conn, err := Dial(s.Steady, s.Server)
	if err != nil {
		return nil, err
	}
	l := New(conn, 1, steadySessions)
	l.Prefix = "steady"
	x := &steadies{lac: l, unanswered: map[uint16]time.Time{}, stop: make(chan struct{}), stopped: make(chan error, 1)}
	answered := map[uint16]bool{}
	l.Ready = func(one *Session) { l.Send(one, ping(one, s.Target, 0)) }
	l.Data = func(one *Session, ip []byte) {
		if isEchoReply(ip, s.Target, one) {
			answered[one.ID] = true
		}
	}
	if _, err := l.BringUp(ctx); err != nil {
		return nil, err
	}
	if err := x.settle(answered); err != nil {
		return nil, err
	}
	l.Ready, l.Data = nil, func(one *Session, ip []byte) {
		if isEchoReply(ip, s.Target, one) {
			x.came++
			delete(x.unanswered, binary.BigEndian.Uint16(ip[26:]))
		}
	}
	go func() { x.stopped <- x.run(s.Target) }()
	return x, nil
}

// settle waits until each session has an answer to its first packet, which it sent
// at the moment it came up: nothing is sent twice.
func (x *steadies) settle(answered map[uint16]bool) error {
	for end := time.Now().Add(patience); len(answered) < len(x.lac.Sessions); {
		if time.Now().After(end) {
			return fmt.Errorf("the first packets of %d sessions were answered, and there are %d", len(answered), len(x.lac.Sessions))
		}
		if err := x.lac.Turn(20 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (x *steadies) run(target netip.Addr) error {
	for next := time.Now(); ; {
		select {
		case <-x.stop:
			for end := time.Now().Add(2 * time.Second); x.came < x.sent && time.Now().Before(end); {
				if err := x.lac.Turn(20 * time.Millisecond); err != nil {
					return err
				}
			}
			return nil
		default:
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(steadyEvery)
			x.lac.Send(x.lac.Sessions[x.sent%steadySessions], ping(x.lac.Sessions[x.sent%steadySessions], target, uint16(x.sent)))
			x.unanswered[uint16(x.sent)] = now
			x.sent++
		}
		if err := x.lac.Turn(time.Until(next)); err != nil {
			return err
		}
	}
}

func (x *steadies) pause() (sent, came int, err error) {
	close(x.stop)
	err = <-x.stopped
	return x.sent, x.came, err
}

// thrownAway is the number of packets for which the backlog queues of this machine's
// CPUs had no room: a thousand packets can wait there for a busy CPU, and a storm
// from the same machine may fill them. It explains lost packets.
func thrownAway() (n int, err error) {
	text, err := os.ReadFile("/proc/net/softnet_stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return 0, fmt.Errorf("read /proc/net/softnet_stat: %q", line)
		}
		dropped, err := strconv.ParseUint(fields[1], 16, 32)
		if err != nil {
			return 0, fmt.Errorf("read /proc/net/softnet_stat: %w", err)
		}
		n += int(dropped)
	}
	return n, nil
}

// ping is an echo request of a subscriber's (RFC 792).
func ping(s *Session, to netip.Addr, number uint16) []byte {
	b := make([]byte, 64)
	b[0], b[3], b[8], b[9] = 0x45, 64, 64, 1
	copy(b[12:], s.Addr[:])
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b[:20]))
	b[20] = 8
	binary.BigEndian.PutUint16(b[24:], s.ID)
	binary.BigEndian.PutUint16(b[26:], number)
	binary.BigEndian.PutUint16(b[22:], checksum.Of(b[20:]))
	return b
}

func isEchoReply(ip []byte, from netip.Addr, s *Session) bool {
	return len(ip) >= 28 && ip[9] == 1 && netip.AddrFrom4([4]byte(ip[12:16])) == from && [4]byte(ip[16:20]) == s.Addr &&
		ip[20] == 0 && binary.BigEndian.Uint16(ip[24:]) == s.ID
}
