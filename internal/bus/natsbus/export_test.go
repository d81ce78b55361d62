package natsbus

// Crash ends the server as its own failure would.
func (b *Bus) Crash() {
	b.mu.Lock()
	s := b.server
	b.mu.Unlock()
	s.Shutdown()
}

// Break cuts the connection to a peer.
func (b *Bus) Break(peer string) {
	b.mu.Lock()
	conn := b.joined[peer]
	b.mu.Unlock()
	conn.Close()
}

// Early is how many connections there are that have not proven who they are.
func (b *Bus) Early() int {
	b.mu.Lock()
	g := b.gate
	b.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.early)
}

// bounds of the gate
const (
	MostStrangers = mostStrangers
	MostOfSource  = mostOfSource
	MostOfPeer    = mostOfPeer
)
