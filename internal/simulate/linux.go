package simulate

import (
	"time"
)

// What follows makes the sender Linux's MPTCP (Setup.Linux), read in version
// 6.18. It differs from the ordinary sender in when data finds its path: the
// application's write fills a send buffer, whose content is handed to subflows
// in bursts, ahead of their windows, and stays there. Sources, all of the kernel:
//
//   - the send buffer and its pieces: net/mptcp/protocol.c, mptcp_sendmsg
//   - bursts: __subflow_push_pending, __mptcp_push_pending
//   - its size: __mptcp_sync_sndbuf; net/ipv4/tcp_input.c, tcp_sndbuf_expand
//   - repeats on another subflow: protocol.c, __mptcp_retrans
//
// Left out: what a socket keeps of a page that it did not fill, subflows that
// join later, and stale ones (a path that does not answer is down after as many
// timeouts as the kernel's stale_loss_cnt has losses).
const (
	// kernelPage is what a piece of the send buffer costs; its header is in it
	// (SKB_FRAG_PAGE_ORDER, struct mptcp_data_frag).
	kernelPage   = 32768
	kernelHeader = 40
	// kernelPacket is what tcp_sndbuf_expand allows a packet on an Ethernet MTU,
	// and kernelSkb what a socket buffer costs beyond its data (x86-64).
	kernelPacket = 2304
	kernelSkb    = 832
	// kernelLeast and kernelMost are tcp_wmem's first and last value.
	kernelLeast = 4096
	kernelMost  = 4 << 20
	// kernelStale is net.mptcp.stale_loss_cnt.
	kernelStale = 4
)

// kernel is what the subflows share.
type kernel struct {
	on       bool
	piece    uint64 // segments
	written  int64  // bytes of all streams
	buffer   int64  // room for what is written and not acknowledged
	blocked  bool   // the application waits for room
	interval Time   // of repeats on another subflow
}

// subflow is what a path has in addition.
type subflow struct {
	assigned ring[data] // handed to it, not sent yet
	unsent   int64      // bytes of that
	lost     int64      // bytes in path.again
	buffer   int64
	pacing   int64 // bytes a second
	prr      reduction
	// tcp_cwnd_validate: whether the window was used, until what was sent then is
	// acknowledged
	full     bool
	mostOut  int64
	usedTill uint64
	armed    Time // the begin of the running timeout
	probed   bool // a tail loss probe was sent since the last progress
}

func (m *Simulation) initKernel() {
	m.kernel = kernel{on: m.setup.Linux, piece: max(1, uint64((kernelPage-kernelHeader+m.setup.MSS/2)/m.setup.MSS)), interval: kernelTimeoutMin}
	if !m.kernel.on {
		return
	}
	m.sender.view.Ahead = true
	for i := range m.paths {
		m.paths[i].subflow.buffer = 2 * kernelPacket * max(10, m.setup.InitialWindow)
		m.paths[i].setPacing(&m.sender.view.Paths[i])
	}
	m.syncBuffers()
}

// syncBuffers is __mptcp_sync_sndbuf.
func (m *Simulation) syncBuffers() {
	m.kernel.buffer = kernelLeast
	for i := range m.paths {
		m.kernel.buffer += m.paths[i].subflow.buffer
	}
}

// charged is what the send buffer holds: pages of what is not acknowledged.
func (m *Simulation) charged() int64 {
	bytes := m.kernel.written - m.sender.consumed
	pages := (bytes + kernelPage - kernelHeader - 1) / (kernelPage - kernelHeader)
	return bytes + pages*kernelHeader
}

// sendLinux does what an acknowledgement, a timer or a write makes possible.
func (m *Simulation) sendLinux() {
	for i := range m.paths {
		m.flush(&m.paths[i])
	}
	m.push()
	m.write()
}

// write is the application: it fills the send buffer, and where that is full
// waits until a third of it is free (sk_stream_is_writeable).
func (m *Simulation) write() {
	k := &m.kernel
	if k.blocked {
		if used := m.charged(); k.buffer-used < used/2 {
			return
		}
		k.blocked = false
	}
	for m.fill() {
		k.blocked = true // while it is, acknowledgements and sends enlarge the buffers
		m.push()
		if m.charged() >= k.buffer {
			return
		}
	}
	k.blocked = false
	m.push()
}

// fill copies into the send buffer, piece by piece; it says false when nothing
// is left to be written.
func (m *Simulation) fill() bool {
	d := &m.sender
	for _, slot := range d.slots {
		s := m.streams.all[slot]
		for s.written < s.segments {
			if m.charged() >= m.kernel.buffer {
				return true
			}
			end := min((s.written/m.kernel.piece+1)*m.kernel.piece, s.segments)
			m.kernel.written += min(int64(end)*m.setup.MSS, s.size) - int64(s.written)*m.setup.MSS
			s.written = end
		}
	}
	return false
}

// push hands what is written to subflows, until the scheduler waits.
func (m *Simulation) push() {
	d := &m.sender
	var last *path
	for len(d.view.Streams) > 0 {
		s := m.streams.all[d.slots[0]]
		if s.next >= s.written {
			break
		}
		m.showSubflows()
		c, ok := m.askFor(0)
		if !ok {
			m.waits()
			break
		}
		p := &m.paths[c.Paths.First()]
		if last != nil && last != p {
			m.flush(last)
		}
		last = p
		if !m.hand(p, max(c.Burst, m.setup.MSS)) {
			m.stalled()
			break
		}
	}
	if last != nil {
		m.flush(last)
		if m.due[m.reinjectSlot()] == never {
			m.due[m.reinjectSlot()] = wheel(m.now, m.kernel.interval)
		}
	}
}

// showSubflows tells the scheduler what is on each path's queue, and notes how
// long the slowest would take to see a loss (mptcp_timeout_from_subflow).
func (m *Simulation) showSubflows() {
	var longest Time
	for i := range m.paths {
		p, v := &m.paths[i], &m.sender.view.Paths[i]
		v.Queued, v.Pacing = m.memory(p), p.subflow.pacing
		v.Held = v.Queued >= p.subflow.buffer
		if at := m.get(p, dueTimer); at != never && !v.Down {
			longest = max(longest, at-m.now)
		}
	}
	m.kernel.interval = longest
	if longest <= 0 {
		m.kernel.interval = kernelTimeoutMin
	}
}

// memory is a subflow's sk_wmem_queued.
func (m *Simulation) memory(p *path) int64 {
	flight := m.sender.view.Paths[p.index].InFlight + p.subflow.lost
	// what a buffer carries is a millisecond's worth (tcp_tso_autosize, with
	// tcp_min_tso_segs)
	carries := max(2*m.setup.MSS, p.subflow.pacing>>10)
	page := int64(m.kernel.piece) * m.setup.MSS
	pages := (p.subflow.unsent + page - 1) / page
	return flight + p.subflow.unsent + ((flight+carries-1)/carries+pages)*kernelSkb
}

// hand gives the next pieces to a path: whole ones, until the burst is over or
// the path's buffer full. It says false where the receive window forbids it.
func (m *Simulation) hand(p *path, burst int64) bool {
	d := &m.sender
	for burst > 0 && len(d.view.Streams) > 0 && m.memory(p) < p.subflow.buffer {
		slot := d.slots[0]
		s := m.streams.all[slot]
		end := min((s.next/m.kernel.piece+1)*m.kernel.piece, s.written)
		if s.next >= end {
			return true
		}
		for s.next < end {
			b := m.bytes(s, s.next)
			if d.view.Window > 0 && d.highest-d.consumed+b > d.view.Window {
				return false
			}
			x := data{stream: s.id, slot: slot, bytes: int32(b), segment: int64(s.next)}
			s.state.extend(s.next)
			*s.state.at(s.next) |= segSent
			s.next++
			d.highest += b
			v := &d.view.Streams[0]
			v.Remaining -= b
			v.Sent += b
			d.view.Backlog -= b
			burst -= b
			p.subflow.assigned.push(x)
			p.subflow.unsent += b
			if v.Remaining == 0 {
				d.hide(0, s)
			}
		}
	}
	return true
}

// flush sends what the window of a path allows: what it lost, then what is new.
func (m *Simulation) flush(p *path) {
	v := &m.sender.view.Paths[p.index]
	f := &p.subflow
	sent := false
	for p.again.len() > 0 && m.roomLinux(p) {
		x := p.again.pop()
		f.lost -= int64(x.bytes)
		f.prr.out += int64(x.bytes)
		m.resend(p, x, true)
		f.prr.until = p.sent.hi - 1
		sent = true
	}
	for f.assigned.len() > 0 && p.again.len() == 0 && m.roomLinux(p) {
		x := f.assigned.pop()
		f.unsent -= int64(x.bytes)
		f.prr.out += int64(x.bytes)
		m.resend(p, x, false)
		m.enlarge(p)
		sent = true
	}
	if limited := !m.roomLinux(p); sent || limited {
		f.validate(p, v.InFlight, limited)
	}
}

// roomLinux is Path.Room without the limit to the subflow's buffer, with pacing
// (of BBR; CUBIC has none).
func (m *Simulation) roomLinux(p *path) bool {
	v := &m.sender.view.Paths[p.index]
	return v.InFlight+m.setup.MSS <= v.Window && p.paceNext <= m.now
}

// resend sends a segment, whether or not anybody still waits for it: a subflow
// must deliver all that it was handed.
func (m *Simulation) resend(p *path, x data, again bool) {
	if s := m.streams.find(x); s != nil && uint64(x.segment) >= s.state.lo {
		*s.state.at(uint64(x.segment))++
	}
	m.transmit(p, x, again)
}

// reinject sends the oldest piece that is not acknowledged again, on a path that
// has nothing to do, if there is one.
func (m *Simulation) reinject() {
	slot := m.reinjectSlot()
	s, at := m.oldest()
	if s == nil {
		return
	}
	m.due[slot] = wheel(m.now, m.kernel.interval)
	for i := range m.paths {
		p, v := &m.paths[i], &m.sender.view.Paths[i]
		if v.Down || v.InFlight > 0 || p.again.len() > 0 || p.subflow.assigned.len() > 0 {
			continue
		}
		end := min((s.state.lo/m.kernel.piece+1)*m.kernel.piece, s.next)
		for n := s.state.lo; n < end; n++ {
			x := data{stream: s.id, slot: at, bytes: int32(m.bytes(s, n)), segment: int64(n)}
			p.subflow.assigned.push(x)
			p.subflow.unsent += int64(x.bytes)
		}
		m.flush(p)
		return
	}
}

// oldest returns the first stream of which something was handed out and is not
// acknowledged, and its slot.
func (m *Simulation) oldest() (found *stream, slot int32) {
	for i, s := range m.streams.all {
		if s.id != 0 && s.state.lo < s.next && (found == nil || s.id < found.id) {
			found, slot = s, int32(i)
		}
	}
	return found, slot
}

// dataAcked restarts or ends the wait for an acknowledgement of the connection
// (__mptcp_clean_una).
func (m *Simulation) dataAcked() {
	at := never
	if m.sender.consumed < m.sender.highest {
		at = wheel(m.now, m.kernel.interval)
	}
	m.due[m.reinjectSlot()] = at
}

func (m *Simulation) reinjectSlot() int { return len(m.due) - 2 }

// wheel rounds a timeout as the kernel's timer wheel does: up to a jiffy, from
// 64 jiffies on to 8 of them, from 512 on to 64 (kernel/time/timer.c).
func wheel(now, timeout Time) Time {
	const jiffy = 4 * time.Millisecond // CONFIG_HZ=250
	step := Time(jiffy)
	for limit := 64 * Time(jiffy); timeout >= limit && step < 512*Time(jiffy); limit *= 8 {
		step *= 8
	}
	at := now + timeout
	return at - at%step + step
}
