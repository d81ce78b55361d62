package ppp

import (
	"bytes"
	"time"

	"weft/wire/ppp"
)

// State is a state of the option negotiation automaton (RFC 1661 section 4.2).
// Initial and Starting do not occur: the layer below is up before there is an automaton.
type State uint8

const (
	StateClosed State = iota
	StateStopped
	StateClosing
	StateStopping
	StateReqSent
	StateAckReceived
	StateAckSent
	StateOpened
)

func (p State) String() string {
	return [...]string{"closed", "stopped", "closing", "stopping", "req-sent", "ack-rcvd", "ack-sent", "opened"}[p]
}

// Counters and the timer of RFC 1661 section 4.6.
const (
	restartTime   = 3 * time.Second
	maxConfigure  = 10
	maxTerminate  = 2
	maxFailure    = 5
	echoesMissing = 4
)

// options is what an automaton negotiates.
type options interface {
	// request gives the options to ask for.
	request() []ppp.Option
	// judge answers the peer's: Ack, Nak or Reject, with the options to say so.
	judge(theirs []ppp.Option) (ppp.Code, []ppp.Option)
	// refused takes a Nak or Reject of what was asked for; false gives up.
	refused(code ppp.Code, theirs []ppp.Option) bool
	// agreed follows an Ack that does not open the layer yet.
	agreed()
	// opened and closed are This-Layer-Up and -Down; finished is
	// This-Layer-Finished.
	opened()
	closed()
	finished()
}

// automaton negotiates one control protocol.
type automaton struct {
	options  options
	send     func(ppp.Packet)
	state    State
	id       uint8 // of the last Configure-Request
	tries    int   // left
	failures int   // Naks sent without an Ack
	deadline time.Time
}

// open begins to negotiate.
func (a *automaton) open(now time.Time) {
	switch a.state {
	case StateClosed, StateStopped:
		a.begin(StateReqSent, now)
	case StateClosing:
		a.state = StateStopping
	}
}

func (a *automaton) begin(next State, now time.Time) {
	a.tries, a.failures = maxConfigure, 0
	a.ask(now)
	a.state = next
}

// ask sends a new Configure-Request.
func (a *automaton) ask(now time.Time) {
	a.id++
	a.sendRequest(now)
}

func (a *automaton) sendRequest(now time.Time) {
	a.tries--
	a.deadline = now.Add(restartTime)
	a.send(ppp.Packet{Code: ppp.ConfigureRequest, ID: a.id, Data: ppp.MarshalOptions(a.options.request())})
}

// close ends what was negotiated.
func (a *automaton) close(now time.Time) {
	switch a.state {
	case StateOpened:
		a.options.closed()
		fallthrough
	case StateReqSent, StateAckReceived, StateAckSent:
		a.tries = maxTerminate
		a.terminate(now)
		a.state = StateClosing
	case StateStopped:
		a.state = StateClosed
	case StateStopping:
		a.state = StateClosing
	}
}

func (a *automaton) terminate(now time.Time) {
	a.tries--
	a.id++
	a.deadline = now.Add(restartTime)
	a.send(ppp.Packet{Code: ppp.TerminateRequest, ID: a.id})
}

// due is when tick has something to do; zero: never.
func (a *automaton) due() time.Time {
	switch a.state {
	case StateClosed, StateStopped, StateOpened:
		return time.Time{}
	}
	return a.deadline
}

// tick does what is due.
func (a *automaton) tick(now time.Time) {
	if d := a.due(); d.IsZero() || now.Before(d) {
		return
	}
	switch a.state {
	case StateClosing, StateStopping:
		if a.tries > 0 {
			a.terminate(now)
			return
		}
		a.state = map[State]State{StateClosing: StateClosed, StateStopping: StateStopped}[a.state]
		a.options.finished()
	default:
		if a.tries > 0 {
			a.sendRequest(now)
			if a.state == StateAckReceived {
				a.state = StateReqSent
			}
			return
		}
		a.state = StateStopped
		a.options.finished()
	}
}

// receive takes a packet with a code of 1 to 7; others are the protocol's own.
func (a *automaton) receive(p ppp.Packet, now time.Time) {
	switch p.Code {
	case ppp.ConfigureRequest:
		a.requested(p, now)
	case ppp.ConfigureAck, ppp.ConfigureNak, ppp.ConfigureReject:
		a.answered(p, now)
	case ppp.TerminateRequest:
		a.terminated(p, now)
	case ppp.TerminateAck:
		a.terminateAcked(now)
	case ppp.CodeReject:
		// a code that every implementation must know (RXJ-)
		if len(p.Data) > 0 && p.Data[0] >= 1 && p.Data[0] <= 7 {
			a.giveUp()
		}
	}
}

func (a *automaton) requested(p ppp.Packet, now time.Time) {
	switch a.state {
	case StateClosed:
		a.send(ppp.Packet{Code: ppp.TerminateAck, ID: p.ID})
		return
	case StateClosing, StateStopping:
		return
	}
	theirs, err := ppp.ParseOptions(p.Data)
	if err != nil {
		return // silently discarded: it will come again
	}
	switch a.state {
	case StateOpened:
		a.options.closed()
		a.begin(StateReqSent, now)
	case StateStopped:
		a.begin(StateReqSent, now)
	}
	code, answer := a.options.judge(theirs)
	if code == ppp.ConfigureNak {
		if a.failures++; a.failures > maxFailure {
			// it does not converge: refuse what it insists on (section 4.6)
			code = ppp.ConfigureReject
			answer = sameTypes(theirs, answer)
		}
	}
	a.send(ppp.Packet{Code: code, ID: p.ID, Data: ppp.MarshalOptions(answer)})
	switch {
	case code != ppp.ConfigureAck:
		if a.state == StateAckSent {
			a.state = StateReqSent
		}
	case a.state == StateAckReceived:
		a.state = StateOpened
		a.options.opened()
	default:
		a.failures = 0
		a.state = StateAckSent
		a.options.agreed()
	}
}

// sameTypes returns those of all whose types are in some.
func sameTypes(all, some []ppp.Option) []ppp.Option {
	var list []ppp.Option
	for _, o := range all {
		for _, s := range some {
			if s.Type == o.Type {
				list = append(list, o)
				break
			}
		}
	}
	return list
}

func (a *automaton) answered(p ppp.Packet, now time.Time) {
	switch a.state {
	case StateClosed, StateStopped:
		a.send(ppp.Packet{Code: ppp.TerminateAck, ID: p.ID})
		return
	case StateClosing, StateStopping:
		return
	}
	if p.ID != a.id || p.Code == ppp.ConfigureAck && !bytes.Equal(p.Data, ppp.MarshalOptions(a.options.request())) {
		return // section 5.2: it acknowledges something else
	}
	if p.Code != ppp.ConfigureAck {
		theirs, err := ppp.ParseOptions(p.Data)
		if err != nil {
			return
		}
		if a.state == StateOpened {
			a.options.closed()
			a.state = StateReqSent
		}
		if !a.options.refused(p.Code, theirs) {
			a.giveUp()
			return
		}
		if a.state == StateAckReceived {
			a.state = StateReqSent
		}
		if a.tries <= 0 {
			a.giveUp()
			return
		}
		a.ask(now)
		return
	}
	switch a.state {
	case StateReqSent:
		a.tries = maxConfigure
		a.state = StateAckReceived
	case StateAckReceived: // a second Ack: something is wrong, begin again
		a.ask(now)
		a.state = StateReqSent
	case StateAckSent:
		a.tries = maxConfigure
		a.state = StateOpened
		a.options.opened()
	case StateOpened:
		a.options.closed()
		a.ask(now)
		a.state = StateReqSent
	}
}

func (a *automaton) terminated(p ppp.Packet, now time.Time) {
	if a.state == StateOpened {
		a.options.closed()
		a.tries, a.deadline = 0, now.Add(restartTime)
		a.state = StateStopping
	} else if a.state == StateAckReceived || a.state == StateAckSent {
		a.state = StateReqSent
	}
	a.send(ppp.Packet{Code: ppp.TerminateAck, ID: p.ID})
}

func (a *automaton) terminateAcked(now time.Time) {
	switch a.state {
	case StateClosing:
		a.state = StateClosed
		a.options.finished()
	case StateStopping:
		a.state = StateStopped
		a.options.finished()
	case StateAckReceived:
		a.state = StateReqSent
	case StateOpened:
		a.options.closed()
		a.ask(now)
		a.state = StateReqSent
	}
}

// giveUp ends without a word: the peer does not want this protocol.
func (a *automaton) giveUp() {
	if a.state == StateClosed || a.state == StateStopped {
		return
	}
	if a.state == StateOpened {
		a.options.closed()
	}
	a.state = StateStopped
	a.options.finished()
}
