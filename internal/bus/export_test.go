package bus

import "crypto/x509"

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

// Roots returns the authorities that Keys name.
func (k Keys) Roots() (*x509.CertPool, error) {
	k.Certificate, k.Key = "", ""
	config, err := k.tlsConfig()
	if err != nil {
		return nil, err
	}
	return config.RootCAs, nil
}
