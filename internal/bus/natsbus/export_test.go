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
