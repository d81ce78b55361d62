package nat64table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// BindingEvents reads the events of bindings made and ended, for the allocation log.
// It has one reader at a time.
type BindingEvents struct {
	datapath Table
	reader   *ringbuf.Reader
}

// BindingEvents opens the ring buffer.
func (d Table) BindingEvents() (*BindingEvents, error) {
	m, err := d.core.Map("nat64_log_events")
	if err != nil {
		return nil, err
	}
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, fmt.Errorf("read map nat64_log_events: %w", err)
	}
	return &BindingEvents{d, r}, nil
}

// Close closes the ring buffer; unread events stay in it.
func (e *BindingEvents) Close() error { return e.reader.Close() }

// Read returns the events that are in the ring buffer now, at most that many.
func (e *BindingEvents) Read(most int) ([]state.BindingEvent, error) {
	now, ticks := time.Now(), datapath.NowTicks()
	var list []state.BindingEvent
	var record ringbuf.Record
	e.reader.SetDeadline(now)
	for len(list) < most {
		err := e.reader.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return list, fmt.Errorf("read map nat64_log_events: %w", err)
		}
		var v event
		if err := binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &v); err != nil {
			return list, fmt.Errorf("read an event: %w", err)
		}
		list = append(list, state.BindingEvent{
			Made: v.Kind == nat64BindingMade, Translator: int(v.Translator), Protocol: v.Protocol,
			IPv6: addrPort6(v.Client.U8, v.Port), IPv4: addrPort4(v.Pool, v.PoolPort),
			At: now.Add(-since(v.At, ticks)), Since: now.Add(-since(v.Made, ticks)),
		})
	}
	return list, nil
}

// Lost is the number of events so far for which the ring buffer had no room.
func (e *BindingEvents) Lost() (uint64, error) { return e.datapath.LogEventsLost() }

// LogEventsLost is the number of events for which the log's ring buffer had no room.
func (d Table) LogEventsLost() (lost uint64, err error) {
	m, err := d.core.Map("nat64_lost")
	if err != nil {
		return 0, err
	}
	var perCPU []uint64
	if err := m.Lookup(uint32(lostEvents), &perCPU); err != nil {
		return 0, fmt.Errorf("read map nat64_lost: %w", err)
	}
	for _, n := range perCPU {
		lost += n
	}
	return lost, nil
}

// Epoch identifies one life of the tables of stateful translation: bindings of
// another epoch have ended.
func (d Table) Epoch() (string, error) {
	m, err := d.core.Map("nat64_bib6")
	if err != nil {
		return "", err
	}
	info, err := m.Info()
	if err != nil {
		return "", fmt.Errorf("ask for the number of map nat64_bib6: %w", err)
	}
	id, _ := info.ID()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s.%d", strings.TrimSpace(string(boot)), id), nil
}
