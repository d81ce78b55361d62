package accessrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weft/internal/datapath"
	"weft/internal/feature/access"
	"weft/internal/state"
	"weft/internal/task"
	"weft/wire/ppp"
)

// captures hands packets of subscribers to those who look at them. The ring of
// the programs is read while there is somebody.
type captures struct {
	mu   sync.Mutex
	all  map[int]*capture // by the number of the engine's watch
	stop func()           // of the reader; nil: there is none
}

// capture is one of those who look.
type capture struct {
	packets chan captured
}

type captured struct {
	at     time.Time
	up     bool
	length int
	ppp    []byte
}

// captureQueue is how many packets wait for a reader.
const captureQueue = 4096

func (c *capture) put(p captured) {
	select {
	case c.packets <- p:
	default: // the reader is slow: it misses some, subscribers do not wait
	}
}

// linkPPPWithDirection is LINKTYPE_PPP_WITH_DIR: a byte that says whether the
// frame was sent or received, then the frame.
const linkPPPWithDirection layers.LinkType = 204

// Capture writes somebody's packets as a pcap file: the control messages that
// the daemon exchanges, and what the programs carry.
func (s *subscribers) Capture(ctx context.Context, o access.CaptureOrder, w io.Writer) error {
	c := &capture{packets: make(chan captured, captureQueue)}
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if !begun {
		return errors.New("there is no [access.NAME] and no [l2tp_client.NAME]")
	}
	s.mu.Lock()
	id, _ := s.engine.Watch(access.MatchOf(o.Who), func(f access.Frame) {
		c.put(captured{f.At, f.Up, len(f.PPP), append([]byte{}, f.PPP...)})
	}, time.Now())
	s.mu.Unlock()
	s.wake()
	if err := s.look(id, c); err != nil {
		s.unlook(id)
		return err
	}
	defer s.unlook(id)
	return c.write(ctx, o, w)
}

func (c *capture) write(ctx context.Context, o access.CaptureOrder, w io.Writer) error {
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

// look begins to read the programs' copies, if nobody does already.
func (s *subscribers) look(id int, c *capture) error {
	h := &s.captures
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[int]*capture{}
	}
	h.all[id] = c
	if h.stop != nil || s.path == nil {
		return nil
	}
	ring, err := s.doors.Datapath.Captures()
	if err != nil {
		return fmt.Errorf("capture packets: %w", err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := task.Beside(func() error { s.readCaptures(ctx, ring); return nil })
	h.stop = func() {
		cancel()
		<-done
		_ = ring.Close()
	}
	return nil
}

// unlook ends a capture, and with the last one the reading.
func (s *subscribers) unlook(id int) {
	s.mu.Lock()
	s.engine.Unwatch(id, time.Now())
	s.mu.Unlock()
	s.wake()
	h := &s.captures
	h.mu.Lock()
	delete(h.all, id)
	stop := h.stop
	if len(h.all) > 0 {
		stop = nil
	} else {
		h.stop = nil
	}
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// captureLook is how long the reader waits before it looks whether it is to end.
const captureLook = 100 * time.Millisecond

func (s *subscribers) readCaptures(ctx context.Context, ring *datapath.Captures) {
	for ctx.Err() == nil {
		p, ok, err := ring.Read(time.Now().Add(captureLook))
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Error("packets cannot be captured", "error", err)
			return
		}
		if ok {
			s.handOut(p)
		}
	}
}

func (s *subscribers) handOut(p state.AccessCapture) {
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
	h := &s.captures
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, c := range h.all {
		s.mu.Lock()
		mine := s.engine.Watched(id, p.Session)
		s.mu.Unlock()
		if mine {
			c.put(captured{p.At, p.Up, p.Length + len(frame) - len(p.Bytes), frame})
		}
	}
}
