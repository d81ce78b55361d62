package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// verify looks at every page of a bbolt file that its library would follow, so
// that no damage reaches it: bbolt trusts what it maps, and answers damage with
// a panic, also in goroutines of its own, or with SIGBUS. It takes time linear in
// the file's length. The numbers are in the host's byte order.
func verify(file []byte) error {
	m, err := newestMeta(file)
	if err != nil {
		return err
	}
	if m.pages > uint64(len(file))/m.size {
		return fmt.Errorf("it is cut off: it has %d bytes, and says %d pages of %d", len(file), m.pages, m.size)
	}
	v := &verifier{file: file, meta: m, used: make([]bool, m.pages)}
	v.used[0], v.used[1] = true, true
	if err := v.tree(m.root, 0, nil, nil); err != nil {
		return err
	}
	return v.freelist()
}

// meta is what a meta page says.
type meta struct {
	size     uint64 // of a page in bytes
	root     uint64
	freelist uint64
	pages    uint64 // that are in use or free
	txid     uint64
}

const (
	pageHead = 16 // id, flags, count, overflow
	metaLen  = 64
	element  = 16

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10

	bucketFlag = 0x01
	noFreelist = ^uint64(0)
	deepest    = 64 // pages below each other
)

// newestMeta returns the one of the two that bbolt would take.
func newestMeta(file []byte) (best meta, err error) {
	found := false
	for size := uint64(1024); size <= 64<<10; size *= 2 {
		for _, at := range []uint64{0, size} {
			if m, valid := metaAt(file, at); valid && m.size == size && (!found || m.txid > best.txid) {
				best, found = m, true
			}
		}
	}
	if !found {
		return best, errors.New("neither of its two first pages is valid")
	}
	return best, nil
}

func metaAt(file []byte, at uint64) (m meta, valid bool) {
	if uint64(len(file)) < at+pageHead+metaLen {
		return m, false
	}
	b := file[at+pageHead:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56]) // never fails
	u64, u32 := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
	if u32(b) != 0xED0CDAED || u32(b[4:]) != 2 || u64(b[56:]) != sum.Sum64() || binary.NativeEndian.Uint16(file[at+8:]) != metaPage {
		return m, false
	}
	m = meta{size: uint64(u32(b[8:])), root: u64(b[16:]), freelist: u64(b[32:]), pages: u64(b[40:]), txid: u64(b[48:])}
	return m, m.pages >= 3
}

type verifier struct {
	file []byte
	meta
	used []bool
}

// page returns a page with those that it runs over into, and notes them as used.
func (v *verifier) page(id uint64) (flags uint16, count int, body []byte, err error) {
	if id < 2 || id >= v.pages {
		return 0, 0, nil, fmt.Errorf("page %d is outside of it", id)
	}
	b := v.file[id*v.size:]
	over := uint64(binary.NativeEndian.Uint32(b[12:]))
	if binary.NativeEndian.Uint64(b) != id || id+over >= v.pages {
		return 0, 0, nil, fmt.Errorf("page %d has another number, or another length", id)
	}
	for n := id; n <= id+over; n++ {
		if v.used[n] {
			return 0, 0, nil, fmt.Errorf("page %d is used twice", n)
		}
		v.used[n] = true
	}
	return binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:])), b[:(over+1)*v.size], nil
}

// tree looks at a page and all below it, whose keys are from low on and before
// high; nil is no bound.
func (v *verifier) tree(id uint64, depth int, low, high []byte) error {
	if depth > deepest {
		return fmt.Errorf("page %d is too deep", id)
	}
	flags, count, body, err := v.page(id)
	if err != nil {
		return err
	}
	switch flags {
	case leafPage:
		return v.leaf(id, count, body, depth, low, high)
	case branchPage:
	default:
		return fmt.Errorf("page %d is of kind %#x", id, flags)
	}
	if count == 0 {
		return fmt.Errorf("page %d has no children", id)
	}
	keys, err := keysOf(id, count, body, func(e []byte) (at, n uint32) {
		return binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:])
	}, low, high)
	if err != nil {
		return err
	}
	for i, key := range keys {
		next := high
		if i+1 < len(keys) {
			next = keys[i+1]
		}
		if err := v.tree(binary.NativeEndian.Uint64(body[pageHead+i*element+8:]), depth+1, key, next); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) leaf(id uint64, count int, body []byte, depth int, low, high []byte) error {
	keys, err := keysOf(id, count, body, func(e []byte) (at, n uint32) {
		return binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:])
	}, low, high)
	if err != nil {
		return err
	}
	for i := range keys {
		e := body[pageHead+i*element:]
		start := uint64(pageHead+i*element) + uint64(binary.NativeEndian.Uint32(e[4:])) + uint64(len(keys[i]))
		n := uint64(binary.NativeEndian.Uint32(e[12:]))
		if start+n > uint64(len(body)) {
			return fmt.Errorf("a value of page %d is outside of it", id)
		}
		value := body[start : start+n]
		switch flags := binary.NativeEndian.Uint32(e); {
		case flags == 0:
		case flags != bucketFlag || len(value) < 16:
			return fmt.Errorf("an entry of page %d is of no kind that there is", id)
		default:
			if err := v.bucket(id, value, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket looks at a bucket: a tree of its own, or one page within the value.
func (v *verifier) bucket(id uint64, value []byte, depth int) error {
	root, inline := binary.NativeEndian.Uint64(value), value[16:]
	if root != 0 {
		return v.tree(root, depth+1, nil, nil)
	}
	if len(inline) < pageHead || binary.NativeEndian.Uint16(inline[8:]) != leafPage || binary.NativeEndian.Uint32(inline[12:]) != 0 {
		return fmt.Errorf("a bucket within page %d has no page", id)
	}
	if depth > deepest {
		return fmt.Errorf("page %d is too deep", id)
	}
	return v.leaf(id, int(binary.NativeEndian.Uint16(inline[10:])), inline, depth+1, nil, nil)
}

// keysOf returns the keys of a page, in their order. where says where the key of an
// element is, from the element on, and its length.
func keysOf(id uint64, count int, body []byte, where func([]byte) (at, n uint32), low, high []byte) ([][]byte, error) {
	if pageHead+count*element > len(body) {
		return nil, fmt.Errorf("page %d says that it has %d entries", id, count)
	}
	keys := make([][]byte, count)
	for i := range keys {
		from := pageHead + i*element
		at, n := where(body[from:])
		start := uint64(from) + uint64(at)
		if n == 0 || start+uint64(n) > uint64(len(body)) || start < uint64(pageHead+count*element) {
			return nil, fmt.Errorf("a key of page %d is outside of it", id)
		}
		keys[i] = body[start : start+uint64(n)]
		if bytes.Compare(keys[i], low) < 0 || high != nil && bytes.Compare(keys[i], high) >= 0 {
			return nil, fmt.Errorf("the keys of page %d are not in order", id)
		}
		low = append(keys[i][:len(keys[i]):len(keys[i])], 0) // the next is greater
	}
	return keys, nil
}

// freelist looks at the list of free pages: one of them that is in use would be
// written over.
func (v *verifier) freelist() error {
	if v.meta.freelist == noFreelist {
		return nil
	}
	id := v.meta.freelist
	flags, count, body, err := v.page(id)
	if err != nil {
		return err
	}
	if flags != freelistPage {
		return fmt.Errorf("page %d is no list of free pages", id)
	}
	body = body[pageHead:]
	n := uint64(count)
	if count == 0xffff { // the number stands in the first place
		n, body = binary.NativeEndian.Uint64(body), body[8:]
	}
	if n > uint64(len(body))/8 {
		return fmt.Errorf("the list of free pages says that it has %d", n)
	}
	for last, i := uint64(1), uint64(0); i < n; i++ {
		free := binary.NativeEndian.Uint64(body[8*i:])
		if free <= last || free >= v.pages || v.used[free] {
			return fmt.Errorf("page %d is free and in use", free)
		}
		last = free
	}
	return nil
}
