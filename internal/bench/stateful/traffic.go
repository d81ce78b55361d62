package stateful

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weft/internal/bench/rig"
	"weft/internal/datapath"
	"weft/internal/lab/netspace"
)

const (
	numbersMax = 1 << 20 // NUMBERS of sessions.bpf.c
	frameMax   = 128     // FRAME_MAX
	zipf       = 1.1
)

// traffic makes packets that belong to many sessions.
type traffic struct {
	objects sessionsObjects
	words   *datapath.Words
	in      *netspace.Space
	frame   []byte
}

func newTraffic(p *rig.Path, d rig.Datagrams) (*traffic, error) {
	t := &traffic{in: p.Left}
	if err := t.open(p, d); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare packets of many sessions: %w", err), t.Close())
	}
	return t, nil
}

func (t *traffic) open(p *rig.Path, d rig.Datagrams) error {
	var err1, err2 error
	d.FromMAC, err1 = rig.MAC(p.Left, "eth0")
	d.ToMAC, err2 = rig.MAC(p.Router, "lan")
	out, err3 := rig.DeviceIndex(p.Left, "eth0")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	var err error
	if t.frame, err = d.Frame(); err != nil {
		return err
	}
	spec, err := loadSessions()
	if err != nil {
		return err
	}
	var whole [frameMax]byte
	copy(whole[:], t.frame)
	err = errors.Join(
		spec.Variables["frame"].Set(whole), spec.Variables["frame_len"].Set(uint32(len(t.frame))),
		spec.Variables["out"].Set(uint32(out)), spec.Variables["ipv6"].Set(d.From.Is6()),
	)
	if err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return err
	}
	t.words, err = datapath.MapWords(t.objects.Numbers)
	return err
}

// Close lets go of the program.
func (t *traffic) Close() error {
	var err error
	if t.words != nil {
		err = t.words.Close()
	}
	return errors.Join(err, t.objects.Close())
}

// once sends one packet of each session from the first to before the last, in
// order, and gives how long it took.
func (t *traffic) once(first, last int) (time.Duration, error) {
	for i := range last - first {
		t.words.Words[i] = uint32(first + i)
	}
	if err := t.objects.Position.Put(uint32(0), uint32(0)); err != nil {
		return 0, err
	}
	return rig.SendExactly(t.in, t.objects.Sessions, t.frame, last-first)
}

// draw fills the list with n sessions in random order.
func (t *traffic) draw(n int, byZipf bool, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	order := random.Perm(n)
	z := rand.NewZipf(random, zipf, 1, uint64(n-1))
	for i := range t.words.Words[:numbersMax] {
		at := i % n
		if byZipf {
			at = int(z.Uint64())
		}
		t.words.Words[i] = uint32(order[at])
	}
	return t.objects.Position.Put(uint32(0), uint32(0))
}

// warmUp comes before what counts: as many packets as there are sessions, for
// that is how sessions are met that are older than a moment.
func (t *traffic) warmUp(sessions int) error {
	if _, err := t.send(20 * time.Millisecond); err != nil {
		return err
	}
	_, err := rig.SendExactly(t.in, t.objects.Sessions, t.frame, sessions)
	return err
}

// send goes through the list for at least the time given.
func (t *traffic) send(atLeast time.Duration) (time.Duration, error) {
	return rig.Send(t.in, t.objects.Sessions, t.frame, atLeast)
}
