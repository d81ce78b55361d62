package natsbus

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"weft/internal/bus"
)

// guard tells who may use the server here: this process, and peers whose
// certificate names them or who know the password, or both. The gate lets in
// nothing but such peers; the server asks again, to know their permissions.
type guard struct {
	name     string // this router's
	own      string // this process's secret
	password string
	tls      bool
	peers    []bus.Peer
}

const localUser = "weft-local"

// Check implements server.Authentication.
func (g *guard) Check(c server.ClientAuthentication) bool {
	opts := c.GetOpts()
	if opts.Username == localUser && g.own != "" && same(opts.Password, g.own) {
		c.RegisterUser(&server.User{Username: localUser})
		return true
	}
	for _, p := range g.peers {
		if opts.Username == p.Name {
			c.RegisterUser(&server.User{Username: p.Name, Permissions: mayRead(g.name)})
			return true
		}
	}
	return false
}

// admits reports whether a connection is that of the peer that it says it is.
func (g *guard) admits(name, password string, certificate *tls.ConnectionState) bool {
	if !g.tls && g.password == "" || !slices.ContainsFunc(g.peers, func(p bus.Peer) bool { return p.Name == name }) {
		return false
	}
	if g.password != "" && !same(password, g.password) {
		return false
	}
	return !g.tls || named(certificate, name)
}

// named reports whether a verified certificate has a name.
func named(certificate *tls.ConnectionState, name string) bool {
	return certificate != nil && len(certificate.VerifiedChains) > 0 && certificate.PeerCertificates[0].VerifyHostname(name) == nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// mayRead lets a peer read the stream and ask for a listing, and nothing else.
func mayRead(router string) *server.Permissions {
	stream := streamName(router)
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.STREAM.INFO." + stream, "$JS.API.CONSUMER.CREATE." + stream + ".>",
			"$JS.API.CONSUMER.MSG.NEXT." + stream + ".>", "$JS.API.CONSUMER.DELETE." + stream + ".>",
			asking(router),
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}
}

// options are those of a connection to another machine's server.
func (b *Bus) options(peer string) ([]nats.Option, error) {
	list := []nats.Option{nats.Name("weft " + b.settings.Name), nats.NoReconnect(), nats.Timeout(dialTimeout), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2)}
	if len(b.settings.Cluster) > 0 {
		more, err := clusterOptions(b.settings.Keys)
		return append(list, more...), err
	}
	config, err := b.settings.Keys.TLS()
	if err != nil {
		return nil, err
	}
	if config != nil {
		config.ServerName = peer
		list = append(list, nats.Secure(config), nats.TLSHandshakeFirst())
	}
	password, err := b.settings.Keys.Password()
	if err != nil {
		return nil, err
	}
	return append(list, nats.UserInfo(b.settings.Name, password)), nil
}

var errNoKeys = errors.New("neither certificates nor a password are set: any host could read the sessions")
