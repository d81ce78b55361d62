// Package failover lets routers share the sessions of stateful translators, so
// that one goes on where another has stopped.
package sessionsync

import (
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// Config is [session_sync].
type Config struct {
	Name         string         `toml:"name" example:"\"left\"" doc:"This router's name among its peers. Its certificate must contain it (as a DNS name)."`
	Translators  []string       `toml:"translators" example:"[\"main\"]" doc:"The [nat64.NAME] sections to synchronise; the other routers have sections of the same names, prefixes and pools. Default: all that are stateful."`
	Peers        []Peer         `toml:"peers" required:"true" example:"[{ name = \"right\", address = \"[2001:db8:ff::2]:4222\" }]" doc:"The other routers. At most 31."`
	Listen       netip.AddrPort `toml:"listen" example:"\"[2001:db8:ff::1]:4222\"" doc:"Address and port of this router's NATS server for its peers, preferably on a link of its own. Not with cluster."`
	CA           string         `toml:"ca" example:"\"/etc/weft/failover-ca.pem\"" doc:"A file with the certificate of the authority that signs the routers' certificates; it should sign nothing else. With cluster: of the authority that signed its servers' certificates, if this system does not know it."`
	Certificate  string         `toml:"certificate" example:"\"/etc/weft/failover.pem\"" doc:"A file with this router's certificate, as server and as client. With cluster: only if the servers require one."`
	Key          string         `toml:"key" example:"\"/etc/weft/failover.key\"" doc:"A file with the certificate's key."`
	PasswordFile string         `toml:"password_file" example:"\"/etc/weft/failover.password\"" doc:"A file with a secret of 16 characters at least, the same on all routers; besides certificates, or instead of them on loopback. With cluster: the password of user."`
	User         string         `toml:"user" example:"\"weft\"" doc:"The user at the cluster, with password_file."`
	Cluster      []string       `toml:"cluster" example:"[\"tls://nats1.example.net:4222\"]" doc:"URLs of NATS servers with JetStream to use instead of one here and at each peer."`
	Credentials  string         `toml:"credentials" example:"\"/etc/weft/nats.creds\"" doc:"A file with the credentials for the cluster (.creds)."`
	StreamMiB    int            `toml:"stream_mib" min:"1" max:"4096" example:"64" doc:"Maximum size of this router's stream in MiB of memory, for peers that are slow or away for a moment. Each session event takes 58 bytes; when the limit is reached, the oldest are discarded, and the peer requests a dump."`
}

// Peer is another router that shares.
type Peer struct {
	Name    string         `toml:"name" required:"true" example:"\"right\"" doc:"Its name: that of its own section, and of its certificate."`
	Address netip.AddrPort `toml:"address" example:"\"[2001:db8:ff::2]:4222\"" doc:"Address and port of its NATS server. Not with cluster."`
}

// Section is what config.Load needs to read [session_sync].
func Section() config.Section {
	return config.Section{
		Name:  "session_sync",
		Was:   "failover",
		Doc:   "Session synchronisation of stateful translators between routers.",
		New:   func(string) any { return &Config{StreamMiB: 64} },
		Check: func(c *config.Checker, _ string, s any) { check(c, s.(*Config)) },
	}
}

// From returns the section [session_sync] of f, nil if there is none.
func From(f *config.File) *Config {
	if !f.Given("session_sync") {
		return nil
	}
	return f.Get("session_sync", "").(*Config)
}

// Shared returns the NAMEs of the translators of f that are shared; stateful are
// those that can be.
func Shared(f *config.File, stateful []string) []string {
	c := From(f)
	switch {
	case c == nil:
		return nil
	case len(c.Translators) == 0:
		return stateful
	}
	return c.Translators
}

// PeersMax is how many peers there can be.
const PeersMax = state.OwnersMax - 1
