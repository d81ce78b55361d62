package netfilter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"

	"weft/internal/state"
)

// NFT reads the sets of nftables.
type NFT struct{}

// AddressSet returns the addresses in a set of nftables, named FAMILY TABLE SET.
func (NFT) AddressSet(ctx context.Context, name string) (state.AddressSet, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c := exec.CommandContext(ctx, "nft", append([]string{"-j", "list", "set"}, strings.Fields(name)...)...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return state.AddressSet{}, errors.New("nft is not installed: install the package nftables")
	}
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return state.AddressSet{}, fmt.Errorf("list the set %s: %s", name, first)
	}
	set, err := parseAddressSet(out)
	if err != nil {
		return set, fmt.Errorf("read the set %s: %w", name, err)
	}
	return set, nil
}

// parseAddressSet reads nft's JSON of one set (libnftables-json(5)).
func parseAddressSet(text []byte) (state.AddressSet, error) {
	var list struct {
		Nftables []struct {
			Set *struct {
				Type  any   `json:"type"`
				Flags any   `json:"flags"`
				Elem  []any `json:"elem"`
			} `json:"set"`
		} `json:"nftables"`
	}
	var s state.AddressSet
	if err := json.Unmarshal(text, &list); err != nil {
		return s, err
	}
	for _, entry := range list.Nftables {
		if entry.Set == nil {
			continue
		}
		if kind, _ := entry.Set.Type.(string); kind != "ipv4_addr" && kind != "ipv6_addr" {
			return s, fmt.Errorf("its elements are %v, not addresses", entry.Set.Type)
		}
		// for elements that packets add, and for those that expire, the kernel sends
		// no events
		flags := fmt.Sprint(entry.Set.Flags)
		s.Silent = strings.Contains(flags, "dynamic") || strings.Contains(flags, "timeout")
		for _, e := range entry.Set.Elem {
			if err := addElement(&s, e); err != nil {
				return s, err
			}
		}
		return s, nil
	}
	return s, errors.New("nft says nothing of it")
}

func addElement(s *state.AddressSet, e any) error {
	if a, is := e.(string); is {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			return err
		}
		s.Prefixes = append(s.Prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	m, _ := e.(map[string]any)
	if inner, is := m["elem"].(map[string]any); is {
		return addElement(s, inner["val"])
	}
	if p, is := m["prefix"].(map[string]any); is {
		text, _ := p["addr"].(string)
		bits, _ := p["len"].(float64)
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		prefix, err := addr.Prefix(int(bits))
		s.Prefixes = append(s.Prefixes, prefix)
		return err
	}
	if r, is := m["range"].([]any); is && len(r) == 2 {
		from, _ := r[0].(string)
		to, _ := r[1].(string)
		first, err := netip.ParseAddr(from)
		if err != nil {
			return err
		}
		last, err := netip.ParseAddr(to)
		if err != nil {
			return err
		}
		if first.BitLen() != last.BitLen() || last.Less(first) {
			return fmt.Errorf("%s-%s is no range", from, to)
		}
		s.Prefixes = append(s.Prefixes, prefixesOf(first, last)...)
		return nil
	}
	return fmt.Errorf("an element is no address: %v", e)
}

// prefixesOf covers a range with the fewest prefixes.
func prefixesOf(first, last netip.Addr) (list []netip.Prefix) {
	for {
		bits := first.BitLen()
		for bits > 0 {
			p, _ := first.Prefix(bits - 1)
			if p.Addr() != first || last.Less(lastOf(p)) {
				break
			}
			bits--
		}
		p := netip.PrefixFrom(first, bits)
		list = append(list, p)
		end := lastOf(p)
		if end == last || !end.Next().IsValid() {
			return list
		}
		first = end.Next()
	}
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// RulesetEvents are the events of changes of nftables' ruleset, elements of sets
// too.
type RulesetEvents struct{ *netfilterEvents }

// OpenRulesetEvents subscribes to them. Follow must run.
func OpenRulesetEvents() (*RulesetEvents, error) {
	n, err := subscribeNetfilter(groupNFTables, false)
	if err != nil {
		return nil, fmt.Errorf("subscribe to the ruleset: %w", err)
	}
	return &RulesetEvents{n}, nil
}

// Wake receives after a change.
func (n *RulesetEvents) Wake() <-chan struct{} { return n.wake }

// Follow reads events until ctx ends, and closes the socket.
func (n *RulesetEvents) Follow(ctx context.Context) {
	var once sync.Once
	done := func() { once.Do(func() { n.socket.Close() }) }
	defer done()
	defer context.AfterFunc(ctx, done)()
	n.follow(ctx)
}
