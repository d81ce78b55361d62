package bus

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// tlsConfig reads the files; nil without any.
func (k Keys) tlsConfig() (*tls.Config, error) {
	if k.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(k.CA)
	if err != nil {
		return nil, fmt.Errorf("read ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read ca %s: the file has no certificate", k.CA)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert}
	if k.Certificate == "" {
		return config, nil // a cluster that asks for none
	}
	// read for each connection: renewed ones are used without a word
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(k.Certificate, k.Key)
		if err != nil {
			return nil, fmt.Errorf("read certificate and key: %w", err)
		}
		return &pair, nil
	}
	if _, err := own(); err != nil {
		return nil, err
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own() }
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	return config, nil
}

func (k Keys) password() (string, error) {
	if k.PasswordFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(k.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	p := strings.TrimSpace(string(text))
	if least := k.passwordLeast(); len(p) < least {
		return "", fmt.Errorf("read password: %s has %d characters, the minimum is %d", k.PasswordFile, len(p), least)
	}
	return p, nil
}

// passwordLeast is how long a password must be: one that all routers share is
// weft's to judge, a user's at an operator's cluster is not.
func (k Keys) passwordLeast() int {
	if k.User != "" {
		return 1
	}
	return 16
}

// guard tells who may use the server here: this process, and peers whose
// certificate names them or who know the password, or both.
type guard struct {
	name     string // this router's
	own      string // this process's secret
	password string
	tls      bool
	peers    []Peer
	refused  atomic.Uint64
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
		if opts.Username == p.Name && g.admits(c, opts.Password, p.Name) {
			c.RegisterUser(&server.User{Username: p.Name, Permissions: mayRead(g.name)})
			return true
		}
	}
	g.refused.Add(1)
	return false
}

func (g *guard) admits(c server.ClientAuthentication, password, name string) bool {
	if !g.tls && g.password == "" {
		return false
	}
	if g.password != "" && !same(password, g.password) {
		return false
	}
	if !g.tls {
		return true
	}
	state := c.GetTLSConnectionState()
	return state != nil && len(state.VerifiedChains) > 0 && state.PeerCertificates[0].VerifyHostname(name) == nil
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
		more, err := b.settings.Keys.clusterOptions()
		return append(list, more...), err
	}
	config, err := b.settings.Keys.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		config.ServerName = peer
		list = append(list, nats.Secure(config), nats.TLSHandshakeFirst())
	}
	password, err := b.settings.Keys.password()
	if err != nil {
		return nil, err
	}
	return append(list, nats.UserInfo(b.settings.Name, password)), nil
}

var errNoKeys = errors.New("neither certificates nor a password are set: any host could read the sessions")
