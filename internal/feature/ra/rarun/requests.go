package rarun

import (
	"net/netip"
	"sync"

	"weft/internal/feature/ra"
	"weft/wire/dhcp6"
)

// question is a DHCPv6 message.
type question struct {
	message []byte
	from    netip.Addr
	client  string // DUID
}

// Messages that may wait, and of one client.
const (
	waitingMost   = 256
	waitingClient = 2
)

// requests are the messages that wait to be answered. Those of clients that have leases
// wait apart from those of others, and each client has few: a host that pretends to be
// any number of clients does not keep the others from renewing what they have.
type requests struct {
	old, new chan question

	mu      sync.Mutex
	clients map[string]map[ra.Binding]bool // what they have
	waiting map[string]int                 // messages in old
}

func newRequests(kept []ra.Lease) *requests {
	r := &requests{old: make(chan question, waitingMost), new: make(chan question, waitingMost), clients: map[string]map[ra.Binding]bool{}, waiting: map[string]int{}}
	for _, l := range kept {
		r.note([]ra.Change{{Lease: l}})
	}
	return r
}

// bound has the messages of clients with leases, others the others'. There are none
// without a server.
func (r *requests) bound() <-chan question {
	if r == nil {
		return nil
	}
	return r.old
}

func (r *requests) others() <-chan question {
	if r == nil {
		return nil
	}
	return r.new
}

// put lets a copy of a message wait, or drops it: the client repeats it.
func (r *requests) put(message []byte, from netip.Addr) {
	id := dhcp6.ClientID(message)
	r.mu.Lock()
	defer r.mu.Unlock()
	q := question{from: from}
	queue := r.new
	if r.clients[string(id)] != nil {
		if r.waiting[string(id)] >= waitingClient {
			return
		}
		q.client, queue = string(id), r.old
	}
	if len(queue) == cap(queue) { // only put writes to it
		return
	}
	q.message = append([]byte(nil), message...)
	if q.client != "" {
		r.waiting[q.client]++
	}
	queue <- q
}

// taken says that a message does not wait any more.
func (r *requests) taken(q question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[q.client]--; r.waiting[q.client] <= 0 {
		delete(r.waiting, q.client)
	}
}

// note follows which clients have leases.
func (r *requests) note(changes []ra.Change) {
	if r == nil || len(changes) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		has, b := r.clients[c.Lease.Client], c.Lease.Binding
		switch {
		case !c.Gone && has == nil:
			r.clients[c.Lease.Client] = map[ra.Binding]bool{b: true}
		case !c.Gone:
			has[b] = true
		default:
			if delete(has, b); len(has) == 0 {
				delete(r.clients, c.Lease.Client)
			}
		}
	}
}
