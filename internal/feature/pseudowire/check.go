package pseudowire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// pseudowiresMax is how many pseudowires the datapath's tables hold.
const pseudowiresMax = 16384

// options that only some kinds have
var only = map[Kind][]string{
	L2TPv3: {"udp", "dstport", "rx_session", "tx_session", "rx_cookie", "tx_cookie", "cookie64", "counter", "pincounter", "offset"},
	GRETap: {"rx_key", "tx_key"},
	VXLAN:  {"vni"},
}

func check(c *config.Checker, name string, s *Config) {
	s.keyed = c.Given("rx_key")
	checkKind(c, s)
	checkEnds(c, s)
	switch s.Kind {
	case L2TPv3:
		checkL2TP(c, s)
	case GRETap:
		if c.Given("rx_key") != c.Given("tx_key") {
			c.Error("", "has a key in one direction only", "give both rx_key and tx_key, or neither")
		}
	case VXLAN:
		if !c.Given("vni") {
			c.Error("vni", "is missing", "the number that both ends have, like vni = 7")
		}
		if c.Given("checksum") || c.Given("sequence") {
			c.Error("", "vxlan has neither checksum nor sequence here", "take them out")
		}
	}
	checkDevice(c, name, s)
	checkTOS(c, s)
	if s.MTU != 0 && s.MTU < 68 {
		c.Error("mtu", fmt.Sprintf("%d is too small: IPv4 needs 68 (RFC 791)", s.MTU), "from 68 to 65535, or 0 to have it worked out")
	}
	c.Interfaces("interfaces", s.Interfaces)
	checkOthers(c, name, s)
}

func checkKind(c *config.Checker, s *Config) {
	for _, kind := range []Kind{L2TPv3, GRETap, VXLAN} {
		if kind == s.Kind || c.Broken("kind") {
			continue
		}
		for _, key := range only[kind] {
			if c.Given(key) {
				c.Error(key, fmt.Sprintf("belongs to kind = %q", kind), "take it out, or change kind")
			}
		}
	}
	if s.Kind == GRETap && c.Given("srcport") {
		c.Error("srcport", "GRE has no ports", "take it out")
	}
}

func checkEnds(c *config.Checker, s *Config) {
	for key, a := range map[string]netip.Addr{"src": s.Src, "dst": s.Dst} {
		switch {
		case !a.IsValid():
		case a.IsUnspecified(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			c.Error(key, fmt.Sprintf("%s is not the address of one host", a), "give the address of that end")
		case a.IsLinkLocalUnicast():
			c.Error(key, fmt.Sprintf("%s is only good on one link, and there may be several", a), "give an address that is the same everywhere")
		}
	}
	if s.Src.IsValid() && s.Dst.IsValid() && s.Src.Is4() != s.Dst.Is4() {
		c.Error("dst", fmt.Sprintf("%s is not of the family of %s", s.Dst, s.Src), "give both ends addresses of one family")
	}
}

func checkL2TP(c *config.Checker, s *Config) {
	ports := map[string]uint16{"srcport": s.SrcPort, "dstport": s.DstPort}
	for _, key := range []string{"srcport", "dstport"} {
		switch {
		case s.UDP && !c.Given(key):
			c.Error(key, "is missing", "l2tpv3 over UDP needs both ports; udp = false is over IP, without any")
		case s.UDP && ports[key] == 0:
			c.Error(key, "0 is no port: both ends need fixed ports", "write the port of the other end, from 1 to 65535; QEMU takes it as srcport")
		case !s.UDP && c.Given(key):
			c.Error(key, "l2tpv3 over IP has no ports", "take it out, or udp = false")
		}
	}
	for key, id := range map[string]uint32{"rx_session": s.RxSession, "tx_session": s.TxSession} {
		switch {
		case !c.Given(key):
			c.Error(key, "is missing", "the number of the session, as the other end has it")
		case id == 0:
			c.Error(key, "0 is kept for control messages (RFC 3931 section 4.1)", "from 1 to 4294967295")
		}
	}
	for key, text := range map[string]string{"rx_cookie": s.RxCookie, "tx_cookie": s.TxCookie} {
		if _, err := cookie(text, s.Cookie64); err != nil {
			c.Error(key, err.Error(), `a number, or 0x and 8 or 16 digits, like "0x00000000000000aa"`)
		}
	}
	if s.Offset != 0 {
		c.Error("offset", fmt.Sprintf("%d bytes between header and frame: L2TPv3 has none (RFC 3931 section 4.1)", s.Offset), "take it out, and offset= out of QEMU's -netdev line")
	}
	if s.PinCounter && !s.Counter {
		c.Error("pincounter", "there is no counter to pin", "add counter = true")
	}
	if s.PinCounter && s.Sequence {
		c.Error("sequence", "a counter that stays zero says nothing of the order", "take pincounter out, or sequence")
	}
	if s.Checksum == On && !(s.UDP && s.Src.Is6()) && s.Src.IsValid() {
		c.Error("checksum", "is only for l2tpv3 over UDP and IPv6 (RFC 3931 section 4.1.4 leaves it out over IPv4)", "take it out")
	}
}

// cookie reads one: how many bytes it has says either the number of digits
// behind 0x, or wide.
func cookie(text string, wide bool) (string, error) {
	if text == "" {
		return "", nil
	}
	if digits, ok := strings.CutPrefix(text, "0x"); ok && (len(digits) == 8 || len(digits) == 16) {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return "", fmt.Errorf("%q is not a cookie", text)
		}
		return string(b), nil
	}
	bits := 32
	if wide {
		bits = 64
	}
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return "", fmt.Errorf("%q is not a cookie of %d bytes", text, bits/8)
	}
	b := binary.BigEndian.AppendUint64(nil, n)
	return string(b[8-bits/8:]), nil
}

// tosOf returns the TOS, -1 for inherit.
func tosOf(text string) (int, error) {
	if text == "inherit" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 0, 8)
	return int(n), err
}

func checkTOS(c *config.Checker, s *Config) {
	n, err := tosOf(s.TOS)
	switch {
	case err != nil:
		c.Error("tos", fmt.Sprintf("%q is no TOS", s.TOS), `write "inherit", or a number from 0 to 252 like "0x10"`)
	case n > 0 && n&3 != 0:
		c.Error("tos", fmt.Sprintf("%q sets the two bits that tell of congestion (RFC 3168)", s.TOS), fmt.Sprintf("write %q", fmt.Sprintf("0x%02x", n&^3)))
	}
}

func checkDevice(c *config.Checker, name string, s *Config) {
	what, remedy := config.DeviceNameFault(s.Device)
	key := "device"
	if !c.Given(key) {
		key = ""
	}
	if what != "" {
		if remedy == "" {
			remedy = "set device to a shorter name"
		}
		c.Error(key, what, remedy)
	}
	if other := first(c).index.device[s.Device]; other != name {
		c.Error(key, fmt.Sprintf("pseudowire.%s is the device %q already", other, s.Device), "give each a device of its own")
	}
	if names := c.File().Names("pseudowire"); len(names) > pseudowiresMax && names[pseudowiresMax] == name {
		c.Error("", fmt.Sprintf("there are more than %d pseudowires", pseudowiresMax), "the tables hold no more")
	}
}

// index is who was first with what only one may have.
type index struct {
	device map[string]string
	end    map[end]string
}

// first returns the first pseudowire of the file, with the index of all: there
// may be thousands, and each is held against all others.
func first(c *config.Checker) *Config {
	names := c.File().Names("pseudowire")
	s := From(c.File(), names[0])
	if s.index != nil {
		return s
	}
	s.index = &index{map[string]string{}, map[end]string{}}
	for _, name := range names {
		o := From(c.File(), name)
		o.keyed = c.File().Given("pseudowire." + name + ".rx_key")
		in, _ := o.ends()
		if _, taken := s.index.end[in]; !taken {
			s.index.end[in] = name
		}
		if _, taken := s.index.device[o.Device]; !taken {
			s.index.device[o.Device] = name
		}
	}
	return s
}

// end is what tells one pseudowire's packets from another's.
type end struct {
	kind          state.PseudowireKind
	local, remote netip.Addr
	port, from    uint16
	id            uint32
}

// ends gives by what packets that come in are known, and those that go out.
func (s *Config) ends() (in, out end) {
	in = end{kind: s.pseudowireKind(), local: s.Src, remote: s.Dst}
	out = end{kind: in.kind, local: s.Dst, remote: s.Src}
	switch in.kind {
	case state.PseudowireL2TPUDP:
		in.port, in.from, out.port, out.from = s.SrcPort, s.DstPort, s.DstPort, s.SrcPort
		fallthrough
	case state.PseudowireL2TPIP:
		in.id, out.id = s.RxSession, s.TxSession
	case state.PseudowireGREKey:
		in.id, out.id = s.RxKey, s.TxKey
	case 0:
		in.id, out.id, in.port, out.port = s.VNI, s.VNI, s.port(), s.port()
	}
	return in, out
}

// pseudowireKind is 0 for vxlan, which is the kernel's.
func (s *Config) pseudowireKind() state.PseudowireKind {
	switch {
	case s.Kind == L2TPv3 && s.UDP:
		return state.PseudowireL2TPUDP
	case s.Kind == L2TPv3:
		return state.PseudowireL2TPIP
	case s.Kind == GRETap && s.keyed:
		return state.PseudowireGREKey
	case s.Kind == GRETap:
		return state.PseudowireGRE
	}
	return 0
}

func (s *Config) port() uint16 {
	if s.SrcPort == 0 {
		return 4789 // RFC 7348 section 5
	}
	return s.SrcPort
}

func checkOthers(c *config.Checker, name string, s *Config) {
	if slices.ContainsFunc([]string{"kind", "src", "dst", "srcport", "dstport", "rx_session", "tx_session"}, c.Broken) || !s.Src.IsValid() || !s.Dst.IsValid() {
		return
	}
	in, out := s.ends()
	if in == out {
		c.Error("", "is its own other end: what it sends would come back to it", "give the other end another address, port or session")
	} else if other := first(c).index.end[in]; other != name {
		c.Error("", fmt.Sprintf("packets for it look the same as those for pseudowire.%s", other), "give it another session, key, port or address")
	}
}
