package lnsrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weft/internal/datapath/subscribertable"
	"weft/internal/feature/lns"
	"weft/internal/state"
	"weft/internal/subscriber"
	"weft/wire/ppp"
)

// captures passes copies of subscribers' packets to the captures that run. The ring
// buffer of the programs is read while at least one runs. The loop owns them.
type captures struct {
	all     map[int]*capture   // by the number of the engine's watch
	stop    context.CancelFunc // stops the reader
	reading bool               // the ring is open: it may have one reader
}

// capture is one running weft capture.
type capture struct {
	packets chan captured
}

type captured struct {
	at     time.Time
	up     bool
	length int
	ppp    []byte
}

// captureQueue is how many packets wait for the writer of a capture.
const captureQueue = 4096

func (c *capture) put(p captured) {
	select {
	case c.packets <- p:
	default: // the writer is slow: drop the copy, subscribers do not wait
	}
}

// linkPPPWithDirection is LINKTYPE_PPP_WITH_DIR: a byte that says whether the
// frame was sent or received, then the frame.
const linkPPPWithDirection layers.LinkType = 204

// Capture writes the packets of a subscriber as a pcap file: the control messages that
// the daemon exchanges, and the packets that the programs forward.
func (r *Runner) Capture(ctx context.Context, o lns.CaptureOrder, w io.Writer) error {
	c := &capture{packets: make(chan captured, captureQueue)}
	var id int
	var failed error
	if err := r.box.Ask(ctx, func(s *subscribers) { id, failed = s.look(o.Who, c) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	defer func() {
		_ = r.box.Ask(context.WithoutCancel(ctx), func(s *subscribers) { s.unlook(id) }) // a loop that has ended captures nothing
	}()
	return c.write(ctx, o, w)
}

func (c *capture) write(ctx context.Context, o lns.CaptureOrder, w io.Writer) error {
	file := pcapgo.NewWriterNanos(w)
	if err := file.WriteFileHeader(65536, linkPPPWithDirection); err != nil {
		return fmt.Errorf("write pcap file: %w", err)
	}
	end := time.NewTimer(o.For)
	defer end.Stop()
	for range o.Packets {
		select {
		case <-ctx.Done():
			return nil
		case <-end.C:
			return nil
		case p := <-c.packets:
			way := byte(1) // sent
			if p.up {
				way = 0
			}
			b := append([]byte{way}, p.ppp...)
			info := gopacket.CaptureInfo{Timestamp: p.at, CaptureLength: len(b), Length: max(len(b), p.length+1)}
			if err := file.WritePacket(info, b); err != nil {
				return fmt.Errorf("write pcap file: %w", err)
			}
		}
	}
	return nil
}

// look begins a capture, and starts the reader if it does not run.
func (s *subscribers) look(who string, c *capture) (id int, err error) {
	if !s.begun {
		return 0, errors.New("weft.toml has no [lns.NAME] and no [l2tp_client.NAME]")
	}
	id, _ = s.engine.Watch(lns.MatchOf(who), func(f subscriber.Frame) {
		c.put(captured{f.At, f.Up, len(f.PPP), append([]byte{}, f.PPP...)})
	}, time.Now())
	h := &s.captures
	if h.all == nil {
		h.all = map[int]*capture{}
	}
	h.all[id] = c
	if err := s.startReader(); err != nil {
		s.unlook(id)
		return 0, err
	}
	return id, nil
}

// startReader starts to read the programs' copies, if a capture needs them and no reader runs.
func (s *subscribers) startReader() error {
	h := &s.captures
	if h.reading || s.path == nil || len(h.all) == 0 {
		return nil
	}
	ring, err := subscribertable.Of(s.doors.Datapath).Captures()
	if err != nil {
		return fmt.Errorf("capture packets: %w", err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	h.reading, h.stop = true, cancel
	s.tasks.Go(func() {
		defer cancel()
		failed := s.readCaptures(ctx, ring)
		_ = ring.Close()
		_ = s.box.Ask(s.ctx, func(s *subscribers) {
			h.reading = false
			if failed == nil { // another capture may have begun since it was stopped
				failed = s.startReader()
			}
			if failed != nil {
				s.log.Error("cannot capture packets", "error", failed)
			}
		})
	})
	return nil
}

// unlook ends a capture, and the reader with the last one.
func (s *subscribers) unlook(id int) {
	s.engine.Unwatch(id, time.Now())
	s.settle()
	h := &s.captures
	delete(h.all, id)
	if len(h.all) == 0 && h.reading {
		h.stop()
	}
}

// captureLook is how often the reader checks whether it must stop.
const captureLook = 100 * time.Millisecond

func (s *subscribers) readCaptures(ctx context.Context, ring *subscribertable.Captures) error {
	for ctx.Err() == nil {
		p, ok, err := ring.Read(time.Now().Add(captureLook))
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if ok {
			_ = s.box.Ask(ctx, func(s *subscribers) { s.handOut(p) })
		}
	}
	return nil
}

func (s *subscribers) handOut(p state.LNSCapture) {
	if len(p.Bytes) == 0 {
		return
	}
	frame := p.Bytes
	if !p.PPP {
		protocol := ppp.IPv4
		if p.Bytes[0]>>4 == 6 {
			protocol = ppp.IPv6
		}
		frame = ppp.AppendFrame(nil, protocol, p.Bytes)
	}
	for id, c := range s.captures.all {
		if s.engine.Watched(id, p.Session) {
			c.put(captured{p.At, p.Up, p.Length + len(frame) - len(p.Bytes), frame})
		}
	}
}
