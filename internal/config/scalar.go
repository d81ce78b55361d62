package config

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// fault is what is wrong with one value.
type fault struct{ what, remedy string }

// setScalar parses text into v, whose shape agrees with the file's. On a fault
// v keeps its default.
func setScalar(v reflect.Value, text string, tag reflect.StructTag) *fault {
	var value any
	var bad *fault
	switch v.Type() {
	case typeAddr:
		value, bad = parseAddr(text, tag)
	case typePrefix:
		value, bad = parsePrefix(text, tag)
	case typeAddrPort:
		value, bad = parseAddrPort(text, tag)
	case typeDuration:
		value, bad = parseDuration(text, tag)
	default:
		return setPlain(v, text, tag)
	}
	if bad == nil {
		v.Set(reflect.ValueOf(value))
	}
	return bad
}

func setPlain(v reflect.Value, text string, tag reflect.StructTag) *fault {
	switch shapeOf(v.Type()) {
	case shapeBool:
		v.SetBool(text == "true")
		return nil
	case shapeInteger:
		return setInteger(v, text, tag)
	}
	if enum := tag.Get("enum"); enum != "" {
		values := strings.Split(enum, ",")
		for _, one := range values {
			if text == one {
				v.SetString(text)
				return nil
			}
		}
		return &fault{fmt.Sprintf("%q is none of its values", text), didYouMean(text, values)}
	}
	v.SetString(text)
	return nil
}

func setInteger(v reflect.Value, text string, tag reflect.StructTag) *fault {
	low, high := integerBounds(v.Type(), tag)
	plain := strings.ReplaceAll(text, "_", "")
	n, err := strconv.ParseInt(plain, 0, 64)
	if err != nil || n < low || n > high {
		return &fault{fmt.Sprintf("%s is out of range", text), fmt.Sprintf("from %d to %d", low, high)}
	}
	if v.CanUint() {
		v.SetUint(uint64(n))
	} else {
		v.SetInt(n)
	}
	return nil
}

// integerBounds returns the smallest and largest value, by the field's type
// unless its tag is narrower.
func integerBounds(t reflect.Type, tag reflect.StructTag) (low, high int64) {
	width := t.Bits()
	low, high = -1<<(width-1), 1<<(width-1)-1
	if t.Kind() >= reflect.Uint {
		low, high = 0, 1<<min(width, 63)-1
	}
	if n, err := strconv.ParseInt(tag.Get("min"), 10, 64); err == nil {
		low = n
	}
	if n, err := strconv.ParseInt(tag.Get("max"), 10, 64); err == nil {
		high = n
	}
	return low, high
}

func parseDuration(text string, tag reflect.StructTag) (time.Duration, *fault) {
	d, err := ParseDuration(text)
	if err != nil {
		if isNumber(text) {
			return 0, &fault{fmt.Sprintf("%q has no unit", text), fmt.Sprintf("write %q, or ms, m, h, d", text+"s")}
		}
		return 0, &fault{fmt.Sprintf("%q is not a duration", text), `like "30s", "500ms", "5m", "1h30m" or "7d"`}
	}
	if low, err := ParseDuration(tag.Get("min")); err == nil && d < low {
		return 0, &fault{fmt.Sprintf("%q is too short", text), "at least " + tag.Get("min")}
	}
	if high, err := ParseDuration(tag.Get("max")); err == nil && d > high {
		return 0, &fault{fmt.Sprintf("%q is too long", text), "at most " + tag.Get("max")}
	}
	return d, nil
}

func parseAddrPort(text string, tag reflect.StructTag) (netip.AddrPort, *fault) {
	a, err := netip.ParseAddrPort(text)
	if err == nil && a.Port() != 0 {
		return a, nil
	}
	remedy := `like "127.0.0.1:9100" or "[::1]:9100"`
	example, failed := netip.ParseAddrPort(strings.Trim(tag.Get("example"), `"`))
	if failed == nil && !example.Addr().IsLoopback() {
		remedy = fmt.Sprintf("like %q", example)
		if alone, err := netip.ParseAddr(text); err == nil {
			remedy = fmt.Sprintf("write %q", netip.AddrPortFrom(alone, example.Port()))
		}
	}
	if host, port, ok := strings.Cut(text, ":"); ok && isNumber(port) && (host == "" || host == "localhost") {
		remedy = fmt.Sprintf("write %q or %q", "127.0.0.1:"+port, "[::1]:"+port)
	}
	return netip.AddrPort{}, &fault{fmt.Sprintf("%q is not an address and port", text), remedy}
}

func parseAddr(text string, tag reflect.StructTag) (netip.Addr, *fault) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		if before, _, ok := strings.Cut(text, "/"); ok {
			if _, err := netip.ParseAddr(before); err == nil {
				return a, &fault{fmt.Sprintf("%q is a prefix, must be an address", text), fmt.Sprintf("write %q", before)}
			}
		}
		return a, notAddress(text, err, tag)
	}
	if bad := wrongFamily(a, text, tag); bad != nil {
		return netip.Addr{}, bad
	}
	return a, nil
}

// notAddress explains what netip refuses; leading zeros are common, and were
// once read as octal (RFC 6943 section 3.1.1).
func notAddress(text string, err error, tag reflect.StructTag) *fault {
	remedy := `like "192.0.2.1"`
	if ipOption(tag, "6") || (!ipOption(tag, "4") && strings.Contains(text, ":")) {
		remedy = `like "2001:db8::1"`
	}
	if strings.Contains(err.Error(), "leading zero") {
		remedy = "write its numbers without leading zeros"
	}
	if with, err := netip.ParseAddrPort(text); err == nil {
		return &fault{fmt.Sprintf("%q is an address with a port, must be an address", text), fmt.Sprintf("write %q: the port cannot be changed here", with.Addr())}
	}
	if prefixes := rangePrefixes(text); prefixes != "" {
		return &fault{fmt.Sprintf("%q is a range", text), "write it as prefixes: " + prefixes}
	}
	return &fault{fmt.Sprintf("%q is not an %s address", text, familyWords(tag)), remedy}
}

func wrongFamily(a netip.Addr, text string, tag reflect.StructTag) *fault {
	switch {
	case a.Zone() != "":
		return &fault{fmt.Sprintf("%q names an interface", text), "take the % and what follows it out"}
	case a.Is4In6():
		return &fault{fmt.Sprintf("%q is an IPv4 address in IPv6 dress", text), fmt.Sprintf("its IPv4 form is %s", a.Unmap())}
	case ipOption(tag, "4") && !a.Is4():
		return &fault{fmt.Sprintf("%q is IPv6, must be IPv4", text), sample(text, `"192.0.2.1"`, `"192.0.2.0/24"`)}
	case ipOption(tag, "6") && !a.Is6():
		return &fault{fmt.Sprintf("%q is IPv4, must be IPv6", text), sample(text, `"2001:db8::1"`, `"2001:db8:1::/64"`)}
	}
	return nil
}

// sample shows a value of the form that text has.
func sample(text, address, prefix string) string {
	if strings.Contains(text, "/") {
		return "like " + prefix
	}
	return "like " + address
}

func parsePrefix(text string, tag reflect.StructTag) (netip.Prefix, *fault) {
	var none netip.Prefix
	address, length, slash := strings.Cut(text, "/")
	a, err := netip.ParseAddr(address)
	if err != nil {
		return none, notAddress(address, err, tag)
	}
	if bad := wrongFamily(a, text, tag); bad != nil {
		return none, bad
	}
	if !slash {
		if ipOption(tag, "bare") {
			return netip.PrefixFrom(a, a.BitLen()), nil
		}
		return none, noLength(a, tag)
	}
	n, err := prefixLength(length, a)
	if err != nil {
		return none, &fault{fmt.Sprintf("%q has a wrong prefix length", text), err.Error()}
	}
	p := netip.PrefixFrom(a, n)
	if p != p.Masked() && !ipOption(tag, "host") {
		return none, &fault{fmt.Sprintf("%s has bits set behind its first %d", p, n), fmt.Sprintf("write %q", p.Masked())}
	}
	return p, nil
}

func noLength(a netip.Addr, tag reflect.StructTag) *fault {
	usual := 64
	if a.Is4() {
		usual = 24
	}
	remedy := fmt.Sprintf("like %q", netip.PrefixFrom(a, usual).Masked())
	if example := tag.Get("example"); strings.HasPrefix(example, `"`) {
		remedy = "like " + example
	}
	if ipOption(tag, "host") {
		remedy = fmt.Sprintf("like %q, with the length of its subnet", netip.PrefixFrom(a, usual))
	}
	return &fault{fmt.Sprintf("%q has no prefix length", a), remedy}
}

// prefixLength reads what stands behind the slash. Its error is a remedy.
func prefixLength(text string, a netip.Addr) (int, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if err == nil && int(n) <= a.BitLen() && strconv.FormatUint(n, 10) == text {
		return int(n), nil
	}
	if mask, err := netip.ParseAddr(text); err == nil && mask.Is4() && a.Is4() {
		b := mask.As4()
		m := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		if ones := bits.LeadingZeros32(^m); m<<ones == 0 {
			return 0, fmt.Errorf("write %q", netip.PrefixFrom(a, ones))
		}
	}
	if a.Is4() {
		return 0, errors.New("from /0 to /32")
	}
	return 0, errors.New("from /0 to /128")
}
