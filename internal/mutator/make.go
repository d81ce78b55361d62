package mutator

import (
	"encoding/binary"
	"math/rand/v2"
)

// maker makes the messages of one sequence.
type maker struct {
	*rand.Rand
	p       *Parser
	ordered bool // the seeds come in their order
	at      int
	buffer  []byte
	most    int
}

func newMaker(p *Parser, r *rand.Rand) *maker {
	m := &maker{Rand: r, p: p, ordered: r.IntN(2) == 0, at: r.IntN(len(p.Seeds)), most: p.Most}
	if m.most == 0 {
		m.most = udpMost
	}
	if r.IntN(2) == 0 {
		m.at = 0
	}
	return m
}

// seed is one of the valid messages.
func (m *maker) seed() []byte { return m.p.Seeds[m.IntN(len(m.p.Seeds))] }

// next makes a message, and reports whether it is a mutated one: valid ones among them
// bring the state machine further.
func (m *maker) next() (b []byte, mutated bool) {
	base := m.seed()
	if m.ordered {
		base = m.p.Seeds[m.at%len(m.p.Seeds)]
		m.at++
	}
	m.buffer = append(m.buffer[:0], base...)
	if m.IntN(8) == 0 {
		return m.sealed(), false
	}
	if m.p.Format != nil && m.IntN(2) == 0 {
		node := m.p.Format.Split(m.buffer)
		for range 1 << m.IntN(3) {
			m.mutate(&node)
		}
		m.buffer = append(m.buffer[:0], m.p.Format.Join(node)...)
		if m.IntN(2) == 0 {
			m.change()
		}
	} else {
		for range 1 << m.IntN(4) {
			m.change()
		}
	}
	if len(m.buffer) > m.most {
		m.buffer = m.buffer[:m.most]
	}
	if m.IntN(4) == 0 {
		return m.buffer[:len(m.buffer):len(m.buffer)], true
	}
	return m.sealed(), true
}

func (m *maker) sealed() []byte {
	if m.p.Seal != nil {
		m.buffer = m.p.Seal(m.buffer)
	}
	return m.buffer[:len(m.buffer):len(m.buffer)]
}

// edges are numbers at which arithmetic goes wrong.
var edges = [...]uint32{0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 192, 254, 255, 256, 511, 512, 1023, 1024, 1279, 1280, 1281, 1499, 1500, 1501, 4095, 4096, 32767, 32768, 65534, 65535, 1<<31 - 1, 1 << 31, 1<<32 - 1}

// change changes bytes, whatever they mean.
func (m *maker) change() {
	b := m.buffer
	if len(b) == 0 {
		m.buffer = append(b, m.seed()...)
		return
	}
	i := m.IntN(len(b))
	switch m.IntN(12) {
	case 0, 1, 2:
		b[i] ^= 1 << m.IntN(8)
	case 3:
		b[i] = byte(edges[m.IntN(len(edges))])
	case 4:
		if i+2 <= len(b) {
			binary.BigEndian.PutUint16(b[i:], m.number16(len(b)-i))
		}
	case 5:
		if i+4 <= len(b) {
			binary.BigEndian.PutUint32(b[i:], edges[m.IntN(len(edges))])
		}
	case 6:
		b[i] += byte(m.IntN(9) - 4)
	case 7:
		m.buffer = b[:i]
	case 8: // part of another message
		other := m.seed()
		k := m.IntN(len(other) + 1)
		m.buffer = append(b[:i], other[k:]...)
	case 9: // a range once more, and sometimes very often
		m.repeat(i, min(1+m.IntN(40), len(b)-i))
	case 10:
		n := min(1+m.IntN(16), len(b)-i)
		m.buffer = append(b[:i], b[i+n:]...)
	case 11:
		for n := min(1+m.IntN(16), len(b)-i); n > 0; n-- {
			b[i+n-1] = byte(m.Uint32())
		}
	}
}

func (m *maker) number16(left int) uint16 {
	if m.IntN(2) == 0 {
		return uint16(left + m.IntN(7) - 5)
	}
	return uint16(edges[m.IntN(len(edges))])
}

// copies is how often something is repeated: mostly once, sometimes so that the message
// becomes as large as any.
func (m *maker) copies(size int) int {
	if m.IntN(100) > 0 {
		return 1
	}
	return 1 + max(m.most>>m.IntN(8), 1)/max(size, 1)
}

func (m *maker) repeat(i, n int) {
	piece := append([]byte(nil), m.buffer[i:i+n]...)
	rest := append([]byte(nil), m.buffer[i:]...)
	b := m.buffer[:i]
	for range m.copies(n) {
		b = append(b, piece...)
	}
	m.buffer = append(b, rest...)
}

// mutate changes the parts of a message: which there are, in what order and where.
func (m *maker) mutate(n *Node) {
	at := m.pick(n)
	if len(at.Items) == 0 {
		other := m.p.Format.Split(append([]byte(nil), m.seed()...))
		if from := m.pick(&other); len(from.Items) > 0 {
			at.Items = append(at.Items, from.Items[m.IntN(len(from.Items))])
		}
		return
	}
	i := m.IntN(len(at.Items))
	one := at.Items[i]
	switch m.IntN(7) {
	case 0:
		at.Items = append(at.Items[:i:i], at.Items[i+1:]...)
	case 1:
		for range m.copies(one.size()) {
			at.Items = append(at.Items, one)
		}
	case 2:
		k := m.IntN(len(at.Items))
		list := append([]Node(nil), at.Items...)
		list[i], list[k] = list[k], list[i]
		at.Items = list
	case 3: // one of another message
		other := m.p.Format.Split(append([]byte(nil), m.seed()...))
		if from := m.pick(&other); len(from.Items) > 0 {
			at.Items = append(at.Items[:len(at.Items):len(at.Items)], from.Items[m.IntN(len(from.Items))])
		}
	case 4: // one within another
		one.Items = append(one.Items[:len(one.Items):len(one.Items)], at.Items[m.IntN(len(at.Items))])
		at.Items[i] = one
	case 5:
		m.body(&at.Items[i])
	case 6: // a type that is near, or any
		if len(one.Head) > 0 {
			h := append([]byte(nil), one.Head...)
			k := m.IntN(min(len(h), 4))
			h[k] += byte(1 << m.IntN(8))
			at.Items[i].Head = h
		}
	}
}

// body changes what an item holds.
func (m *maker) body(n *Node) {
	b := append([]byte(nil), n.Body...)
	switch m.IntN(4) {
	case 0:
		b = b[:m.IntN(len(b)+1)]
	case 1:
		for range min(m.copies(1), 1<<14) {
			b = append(b, byte(m.Uint32()))
		}
	case 2:
		if len(b) > 0 {
			b[m.IntN(len(b))] = byte(edges[m.IntN(len(edges))])
		}
	case 3:
		for range min(m.copies(len(b)), 1<<14) {
			b = append(b, n.Body...)
		}
	}
	n.Body = b
}

// pick is the message itself, or something in it that may hold items.
func (m *maker) pick(n *Node) *Node {
	for len(n.Items) > 0 && m.IntN(2) == 0 {
		next := &n.Items[m.IntN(len(n.Items))]
		if len(next.Items) == 0 {
			break
		}
		n = next
	}
	return n
}
