package lookup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"weft/internal/bench/rig"
	"weft/internal/datapath"
	"weft/internal/lab/netspace"
)

const (
	packetBytes = 64  // of the IP packet
	frameMax    = 128 // FRAME_MAX of spread.bpf.c
)

// scatter makes packets of one family that go all over the table, drawn as
// in-table destinations are.
type scatter struct {
	objects spreadObjects
	words   *datapath.Words
	in      *netspace.Space
	frame   []byte
}

func newScatter(k *kernelTable, family int, prefixes []netip.Prefix, seed uint64) (*scatter, error) {
	s := &scatter{in: k.Left}
	if err := s.open(k, family, prefixes, seed); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare packets to all of the table: %w", err), s.Close())
	}
	return s, nil
}

func (s *scatter) open(k *kernelTable, family int, prefixes []netip.Prefix, seed uint64) error {
	near, err1 := rig.MAC(k.Left, "eth0")
	router, err2 := rig.MAC(k.Router, "lan")
	out, err3 := rig.DeviceIndex(k.Left, "eth0")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	to := map[int]netip.Addr{4: netip.IPv4Unspecified(), 6: netip.IPv6Unspecified()}[family]
	from := lan.Host[family/6].Addr()
	frame, err := rig.Datagrams{FromMAC: near, ToMAC: router, From: from, To: to, Length: packetBytes}.Frame()
	if err != nil {
		return err
	}
	s.frame = frame
	if family == 4 {
		clear(s.frame[14+20+6 : 14+20+8]) // no checksum in UDP (RFC 768)
	}
	spec, err := loadSpread()
	if err != nil {
		return err
	}
	var whole [frameMax]byte
	copy(whole[:], s.frame)
	err = errors.Join(
		spec.Variables["frame"].Set(whole), spec.Variables["frame_len"].Set(uint32(len(s.frame))),
		spec.Variables["out"].Set(uint32(out)), spec.Variables["ipv6"].Set(family == 6),
	)
	if err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return err
	}
	if s.words, err = datapath.MapWords(s.objects.Destinations); err != nil {
		return err
	}
	list := s.words.Words[:0]
	for _, a := range draw(rand.New(rand.NewPCG(seed, 3)), prefixes, inTable) {
		for b := a.AsSlice(); len(b) > 0; b = b[4:] {
			list = append(list, binary.NativeEndian.Uint32(b))
		}
	}
	return nil
}

// Close lets go of the program.
func (s *scatter) Close() error {
	var err error
	if s.words != nil {
		err = s.words.Close()
	}
	return errors.Join(err, s.objects.Close())
}

// send sends for at least the time given, and gives how long it took.
func (s *scatter) send(atLeast time.Duration) (took time.Duration, err error) {
	return rig.Send(s.in, s.objects.Spread, s.frame, atLeast)
}
