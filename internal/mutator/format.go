package mutator

import "encoding/binary"

// Format divides a message into what it consists of, and puts it together again.
type Format interface {
	Split(b []byte) Node
	Join(n Node) []byte
}

// Node is a message, or an item in it: an option, an attribute, a record. It is written
// as Head, Body and Items; lengths in Head are restored.
type Node struct {
	Head  []byte // of an item: its type and length
	Body  []byte // what comes before Items
	Items []Node
}

func (n Node) size() int {
	size := len(n.Head) + len(n.Body)
	for _, i := range n.Items {
		size += i.size()
	}
	return size
}

// TLV is a format of options, each with its type and its length.
type TLV struct {
	Fixed    int // bytes before the first option
	Header   int // bytes of an option's header
	LengthAt int // where its length is there
	Length   int // bytes of that, 1 or 2
	Mask     uint16
	Whole    bool // the length counts the header too
	Unit     int  // bytes that the length counts; zero: 1
	// Inside returns how many bytes come before the options that an option with this
	// header holds; negative: it holds none. nil: none does.
	Inside func(header []byte) int
}

// Split implements Format.
func (f TLV) Split(b []byte) Node {
	n := min(f.Fixed, len(b))
	return Node{Body: b[:n:n], Items: f.items(b[n:], 0)}
}

func (f TLV) items(b []byte, depth int) (list []Node) {
	for len(b) >= f.Header && f.Header > 0 {
		size := f.length(b)
		if size < f.Header || size > len(b) {
			break
		}
		one := Node{Head: b[:f.Header:f.Header], Body: b[f.Header:size:size]}
		if skip := f.inside(b[:f.Header]); skip >= 0 && skip <= len(one.Body) && depth < 4 {
			one.Items = f.items(one.Body[skip:], depth+1)
			one.Body = one.Body[:skip:skip]
		}
		list = append(list, one)
		b = b[size:]
	}
	if len(b) > 0 {
		list = append(list, Node{Body: b[:len(b):len(b)]})
	}
	return list
}

func (f TLV) inside(header []byte) int {
	if f.Inside == nil {
		return -1
	}
	return f.Inside(header)
}

func (f TLV) unit() int { return max(f.Unit, 1) }

func (f TLV) length(b []byte) int {
	n := int(b[f.LengthAt])
	if f.Length == 2 {
		n = int(binary.BigEndian.Uint16(b[f.LengthAt:]))
	}
	if f.Mask != 0 {
		n &= int(f.Mask)
	}
	n *= f.unit()
	if !f.Whole {
		n += f.Header
	}
	return n
}

// Join implements Format.
func (f TLV) Join(n Node) []byte { return f.join(nil, n) }

func (f TLV) join(b []byte, n Node) []byte {
	start := len(b)
	b = append(append(b, n.Head...), n.Body...)
	for _, i := range n.Items {
		if len(b) > 1<<18 {
			break
		}
		b = f.join(b, i)
	}
	if len(n.Head) < f.Header || f.Header == 0 {
		return b
	}
	for (len(b)-start)%f.unit() != 0 {
		b = append(b, 0)
	}
	size := len(b) - start
	if !f.Whole {
		size -= f.Header
	}
	size /= f.unit()
	at := b[start+f.LengthAt:]
	switch {
	case f.Length == 1:
		at[0] = byte(size)
	case f.Mask != 0:
		binary.BigEndian.PutUint16(at, binary.BigEndian.Uint16(at)&^f.Mask|uint16(size)&f.Mask)
	default:
		binary.BigEndian.PutUint16(at, uint16(size))
	}
	return b
}

// DNS is the format of DNS messages: questions and records. Compressed names are left
// as they are, so that what is moved points elsewhere.
type DNS struct{}

const dnsHeader = 12

// Split implements Format.
func (DNS) Split(b []byte) Node {
	n := min(dnsHeader, len(b))
	node := Node{Body: b[:n:n]}
	if n < dnsHeader {
		return node
	}
	at := n
	for section := range 4 {
		for range binary.BigEndian.Uint16(b[4+2*section:]) {
			end := nameEnd(b, at)
			head := 4
			if section > 0 && end+10 <= len(b) {
				head = 10 + int(binary.BigEndian.Uint16(b[end+8:]))
			}
			if end < 0 || end+head > len(b) {
				return rest(node, b, at)
			}
			node.Items = append(node.Items, Node{Head: []byte{byte(section)}, Body: b[at : end+head : end+head]})
			at = end + head
		}
	}
	return rest(node, b, at)
}

func rest(n Node, b []byte, at int) Node {
	if at < len(b) {
		n.Items = append(n.Items, Node{Head: []byte{4}, Body: b[at:len(b):len(b)]})
	}
	return n
}

// nameEnd returns where a name ends; negative: nowhere.
func nameEnd(b []byte, at int) int {
	for at < len(b) {
		switch {
		case b[at] == 0:
			return at + 1
		case b[at]&0xc0 == 0xc0:
			return at + 2
		}
		at += 1 + int(b[at])
	}
	return -len(b) - 20
}

// Join implements Format: the sections in their order, with their counts.
func (DNS) Join(n Node) []byte {
	b := append([]byte(nil), n.Body...)
	if len(b) < dnsHeader {
		return b
	}
	for section := range 5 {
		count := 0
		for _, i := range n.Items {
			if int(i.Head[0]) == section && len(b) < 1<<17 {
				b = appendBodies(b, i)
				count++
			}
		}
		if section < 4 {
			binary.BigEndian.PutUint16(b[4+2*section:], uint16(count))
		}
	}
	return b
}

func appendBodies(b []byte, n Node) []byte {
	b = append(b, n.Body...)
	for _, i := range n.Items {
		b = appendBodies(b, i)
	}
	return b
}

// By is a format that depends on the message.
type By func(b []byte) Format

// Split implements Format.
func (f By) Split(b []byte) Node {
	if one := f(b); one != nil {
		return one.Split(b)
	}
	return Node{Body: b}
}

// Join implements Format: the format is that of the message as it was divided, which is
// seen by the bytes before its items.
func (f By) Join(n Node) []byte {
	if one := f(n.Body); one != nil {
		return one.Join(n)
	}
	return appendBodies(nil, n)
}
