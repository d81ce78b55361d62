package ppp

import (
	"encoding/binary"
	"slices"
	"strings"

	"weft/wire/ppp"
)

// Method is a way to authenticate.
type Method string

const (
	MethodPAP      Method = "pap"
	MethodCHAP     Method = "chap"
	MethodMSCHAPv2 Method = "mschapv2"
)

// Option returns the value of LCP's authentication option (RFC 1661 section 6.2).
func (m Method) Option() []byte {
	switch m {
	case MethodPAP:
		return []byte{0xc0, 0x23}
	case MethodCHAP:
		return []byte{0xc2, 0x23, ppp.AlgorithmMD5}
	case MethodMSCHAPv2:
		return []byte{0xc2, 0x23, ppp.AlgorithmMSCHAPv2}
	}
	return nil
}

// MethodOf reads the option; empty: none that is known here.
func MethodOf(b []byte) Method {
	for _, m := range []Method{MethodPAP, MethodCHAP, MethodMSCHAPv2} {
		if slices.Equal(b, m.Option()) {
			return m
		}
	}
	return ""
}

func methodNames(list []Method) string {
	var words []string
	for _, m := range list {
		words = append(words, string(m))
	}
	return strings.Join(words, " or ")
}

// DefaultACCM is the ACCM where none is negotiated: all characters below 32 are escaped
// (RFC 1662 section 7.1).
const DefaultACCM uint32 = 0xffffffff

// lcp are the options of the link itself (RFC 1661 section 6).
type lcp struct {
	automaton
	link *Link

	magic     uint32
	noMagic   bool // the peer rejected it
	noMRU     bool
	mru       int // that the peer wants us to ask for instead, 0: ours
	methods   []Method
	method    Method // agreed
	peerMRU   int
	peerMagic uint32
	theirs    []byte // options that we agreed to
	initial   []byte // options that it asked for first
	accm      uint32 // characters that it wants escaped (RFC 1662 section 7.1)
	acfc, pfc bool   // the peer takes compressed headers
	loops     int
	fault     string // why there is no agreement
}

func (c *lcp) ourMagic() uint32 {
	if c.noMagic {
		return 0
	}
	return c.magic
}

func (c *lcp) ourMRU() int {
	if c.noMRU {
		return 1500
	}
	if c.mru != 0 {
		return c.mru
	}
	return c.link.MRU
}

func (c *lcp) request() []ppp.Option {
	var list []ppp.Option
	if m := c.ourMRU(); m != 1500 {
		list = append(list, ppp.Option{Type: ppp.OptMRU, Data: binary.BigEndian.AppendUint16(nil, uint16(m))})
	}
	if c.link.Server && len(c.methods) > 0 {
		list = append(list, ppp.Option{Type: ppp.OptAuth, Data: c.methods[0].Option()})
	}
	if !c.noMagic {
		list = append(list, ppp.Option{Type: ppp.OptMagic, Data: binary.BigEndian.AppendUint32(nil, c.magic)})
	}
	return list
}

// leastMRU is the smallest that is agreed to. RFC 1661 has no bound; a link
// that cannot carry 576 bytes is of no use.
const leastMRU = 576

func (c *lcp) judge(theirs []ppp.Option) (ppp.Code, []ppp.Option) {
	var naks, rejects []ppp.Option
	mru, magic, method := 1500, uint32(0), Method("")
	acfc, pfc, accm := false, false, DefaultACCM
	if c.initial == nil {
		c.initial = ppp.MarshalOptions(theirs)
	}
	for _, o := range theirs {
		switch {
		case o.Type == ppp.OptMRU && len(o.Data) == 2:
			mru = int(binary.BigEndian.Uint16(o.Data))
			if mru < leastMRU {
				naks = append(naks, ppp.Option{Type: ppp.OptMRU, Data: binary.BigEndian.AppendUint16(nil, 1500)})
			}
		case o.Type == ppp.OptACCM && len(o.Data) == 4:
			// of no meaning here, where there are no characters: it is for who has the line
			accm = binary.BigEndian.Uint32(o.Data)
		case o.Type == ppp.OptMagic && len(o.Data) == 4:
			magic = binary.BigEndian.Uint32(o.Data)
			if magic == 0 || magic == c.magic && !c.noMagic {
				c.loops++
				naks = append(naks, ppp.Option{Type: ppp.OptMagic, Data: binary.BigEndian.AppendUint32(nil, c.link.randomMagic())})
			}
		case o.Type == ppp.OptPFC && len(o.Data) == 0:
			pfc = true
		case o.Type == ppp.OptACFC && len(o.Data) == 0:
			acfc = true
		case o.Type == ppp.OptAuth && !c.link.Server:
			if method = MethodOf(o.Data); !slices.Contains(c.link.Auth, method) {
				if len(c.link.Auth) == 0 {
					rejects = append(rejects, o)
				} else {
					naks = append(naks, ppp.Option{Type: ppp.OptAuth, Data: c.link.Auth[0].Option()})
				}
			}
		default:
			rejects = append(rejects, o)
		}
	}
	if len(rejects) > 0 {
		return ppp.ConfigureReject, rejects
	}
	if len(naks) > 0 {
		return ppp.ConfigureNak, naks
	}
	c.peerMRU, c.peerMagic, c.acfc, c.pfc, c.accm, c.theirs = mru, magic, acfc, pfc, accm, ppp.MarshalOptions(theirs)
	if !c.link.Server {
		c.method = method
	}
	return ppp.ConfigureAck, theirs
}

func (c *lcp) refused(code ppp.Code, theirs []ppp.Option) bool {
	for _, o := range theirs {
		switch o.Type {
		case ppp.OptMRU:
			switch {
			case code == ppp.ConfigureReject:
				c.noMRU = true
			case len(o.Data) == 2:
				if n := int(binary.BigEndian.Uint16(o.Data)); n >= leastMRU && n <= c.link.MRU {
					c.mru = n
				}
			}
		case ppp.OptMagic:
			c.magic = c.link.randomMagic()
			c.noMagic = c.noMagic || code == ppp.ConfigureReject
		case ppp.OptAuth:
			if !c.anotherMethod(code, o.Data) {
				c.fault = "no agreement on how to authenticate: asked for was " + methodNames(c.link.Auth)
				return false
			}
		}
	}
	return true
}

// anotherMethod chooses what the peer would rather have, if it may, else the
// next one. Without any the link ends: a peer that is not authenticated gets no service.
func (c *lcp) anotherMethod(code ppp.Code, wish []byte) bool {
	if code == ppp.ConfigureReject || len(c.methods) <= 1 {
		return false
	}
	rest := c.methods[1:]
	if m := MethodOf(wish); slices.Contains(rest, m) {
		rest = append([]Method{m}, slices.DeleteFunc(slices.Clone(rest), func(o Method) bool { return o == m })...)
	}
	c.methods = rest
	return true
}

func (c *lcp) opened() {
	if c.link.Server && len(c.methods) > 0 {
		c.method = c.methods[0]
	}
	c.link.carrier.Event(CharacterMaps{Send: c.accm, Receive: DefaultACCM})
	c.link.auth.start(c.method, c.link.now)
}

func (c *lcp) closed() {
	l := c.link
	l.auth.stop()
	for _, a := range []*automaton{&l.v4.automaton, &l.v6.automaton} {
		// the layer below is down: they start again once it is up
		if a.state == StateOpened {
			a.options.closed()
		}
		a.state = StateClosed
	}
	l.auth.done = false
	l.deadline = l.now.Add(authTime)
}

func (c *lcp) agreed() {}

func (c *lcp) finished() {
	switch {
	case c.state == StateClosed:
		c.link.end(ReasonRequested, "closed")
	case c.loops >= maxFailure:
		c.link.end(ReasonError, "the link is looped back")
	case c.fault != "":
		c.link.end(ReasonRefused, c.fault)
	default:
		c.link.end(ReasonPeer, "the peer ended the link, or does not agree to one")
	}
}
