package natsbus_test

// An operator's own cluster: nats-server, with TLS by a private authority, and
// with either users of its own or an operator's JWTs.

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"weft/internal/bus"
	"weft/internal/bus/bustest"
)

// cluster starts a server, and gives its URL.
func cluster(t *testing.T, a *bustest.Authority, change func(*server.Options)) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.Router("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	o := &server.Options{
		Host: "localhost", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, TLSTimeout: 2,
	}
	change(o)
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the cluster does not start")
	}
	return fmt.Sprintf("tls://localhost:%d", s.Addr().(*net.TCPAddr).Port)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// operator is who runs a cluster with JWTs.
type operator struct {
	t       *testing.T
	pair    nkeys.KeyPair
	account nkeys.KeyPair
	claims  *jwt.OperatorClaims
	tokens  map[string]string // of accounts
}

func public(t *testing.T, k nkeys.KeyPair) string {
	t.Helper()
	p, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newOperator makes one with an account that may, or may not, use JetStream.
func newOperator(t *testing.T, jetStream bool) *operator {
	t.Helper()
	o := &operator{t: t, tokens: map[string]string{}}
	var err error
	if o.pair, err = nkeys.CreateOperator(); err != nil {
		t.Fatal(err)
	}
	o.claims = jwt.NewOperatorClaims(public(t, o.pair))
	system := o.newAccount(func(*jwt.AccountClaims) {})
	o.claims.SystemAccount = public(t, system)
	o.account = o.newAccount(func(c *jwt.AccountClaims) {
		if jetStream {
			c.Limits.MemoryStorage, c.Limits.DiskStorage, c.Limits.Streams, c.Limits.Consumer = 64<<20, 0, 10, 100
		}
	})
	token, err := o.claims.Encode(o.pair)
	if err != nil {
		t.Fatal(err)
	}
	if o.claims, err = jwt.DecodeOperatorClaims(token); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *operator) newAccount(change func(*jwt.AccountClaims)) nkeys.KeyPair {
	o.t.Helper()
	pair, err := nkeys.CreateAccount()
	if err != nil {
		o.t.Fatal(err)
	}
	c := jwt.NewAccountClaims(public(o.t, pair))
	change(c)
	if o.tokens[c.Subject], err = c.Encode(o.pair); err != nil {
		o.t.Fatal(err)
	}
	return pair
}

// options have a server trust the operator.
func (o *operator) options(to *server.Options) {
	resolver := &server.MemAccResolver{}
	for account, token := range o.tokens {
		if err := resolver.Store(account, token); err != nil {
			o.t.Fatal(err)
		}
	}
	to.TrustedOperators, to.AccountResolver, to.SystemAccount = []*jwt.OperatorClaims{o.claims}, resolver, o.claims.SystemAccount
}

// user returns the .creds file of a user who may do what is listed.
func (o *operator) user(publish, subscribe []string) string {
	o.t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		o.t.Fatal(err)
	}
	c := jwt.NewUserClaims(public(o.t, pair))
	c.Pub.Allow, c.Sub.Allow = publish, subscribe
	token, err := c.Encode(o.account)
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		o.t.Fatal(err)
	}
	return write(o.t, "weft.creds", string(text))
}

// needed is what a router needs, read from the page that says so.
func needed(t *testing.T, router, peer string) (publish, subscribe []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/features/session-sync.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\npublish:\n")
	first, after, two := strings.Cut(after, "\nsubscribe:\n")
	second, _, end := strings.Cut(after, "```")
	if !found || !two || !end {
		t.Fatal("the page does not say what the credentials must allow")
	}
	mine := strings.NewReplacer("left", router, "right", peer)
	return strings.Fields(mine.Replace(first)), strings.Fields(mine.Replace(second))
}

func atCluster(name, peer, url string, k bus.Keys) bus.Settings {
	return bus.Settings{Name: name, Peers: []bus.Peer{{Name: peer}}, Cluster: []string{url}, Keys: k, Bytes: 1 << 20}
}

// talk has two routers exchange messages.
func talk(t *testing.T, url string, keysA, keysB bus.Keys) {
	t.Helper()
	a := open(t, atCluster("a", "b", url, keysA))
	await(t, a, "a opens", opened)
	b := open(t, atCluster("b", "a", url, keysB))
	await(t, b, "b reads a", joined)
	await(t, a, "a reads b", joined)
	publish(t, a, "hello")
	await(t, b, "it comes", says("hello"))
	if err := b.Ask("a"); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a is asked", func(e bus.Event) bool { return e.Asked != nil && e.Asked.Peer == "b" })
}

func TestAClusterWithCredentialsThatAllowWhatIsDocumented(t *testing.T) {
	authority, o := bustest.NewAuthority(t), newOperator(t, true)
	url := cluster(t, authority, o.options)
	keys := func(router, peer string) bus.Keys {
		publish, subscribe := needed(t, router, peer)
		return bus.Keys{CA: authority.File, CredentialsFile: o.user(publish, subscribe)}
	}
	talk(t, url, keys("a", "b"), keys("b", "a"))
}

func TestAClusterWithUsersAndPasswords(t *testing.T) {
	authority := bustest.NewAuthority(t)
	url := cluster(t, authority, func(o *server.Options) { o.Username, o.Password = "weft", "short" })
	keys := bus.Keys{CA: authority.File, User: "weft", PasswordFile: write(t, "password", "short\n")}
	talk(t, url, keys, keys)
}

func TestAClusterThatAsksForCertificates(t *testing.T) {
	authority := bustest.NewAuthority(t)
	router, err := bus.Keys{CA: authority.File}.TLS()
	if err != nil {
		t.Fatal(err)
	}
	url := cluster(t, authority, func(o *server.Options) {
		o.TLSVerify = true
		o.TLSConfig.ClientAuth, o.TLSConfig.ClientCAs = tls.RequireAndVerifyClientCert, router.RootCAs
	})
	keys := bus.Keys{CA: authority.File}
	keys.Certificate, keys.Key = authority.Router("weft")
	talk(t, url, keys, keys)
}

func TestWhatAClusterRefusesIsToldWithThePlace(t *testing.T) {
	authority, o := bustest.NewAuthority(t), newOperator(t, true)
	url := cluster(t, authority, o.options)
	good := o.user(nil, nil)
	withUsers := cluster(t, authority, func(o *server.Options) { o.Username, o.Password = "weft", "right" })
	mute := newOperator(t, false)
	withoutStreams := cluster(t, authority, mute.options)
	_, subscribe := needed(t, "a", "b")
	other := bustest.NewAuthority(t)
	wrong := write(t, "password", "wrong")
	for name, c := range map[string]struct {
		url  string
		keys bus.Keys
		want string
	}{
		"another authority":          {url, bus.Keys{CA: other.File, CredentialsFile: good}, "another authority than that of ca, " + other.File},
		"an unknown authority":       {url, bus.Keys{CredentialsFile: good}, "name its file as ca"},
		"another name":               {strings.Replace(url, "localhost", "127.0.0.1", 1), bus.Keys{CA: authority.File, CredentialsFile: good}, "a name that is in the server's certificate"},
		"nothing to show":            {url, bus.Keys{CA: authority.File}, "without credentials, or user and password_file"},
		"another operator's":         {url, bus.Keys{CA: authority.File, CredentialsFile: newOperator(t, true).user(nil, nil)}, "the server does not take credentials, "},
		"a wrong password":           {withUsers, bus.Keys{CA: authority.File, User: "weft", PasswordFile: wrong}, `the server does not take user "weft" with the password of password_file, ` + wrong},
		"no file":                    {url, bus.Keys{CA: authority.File, CredentialsFile: "/nonexistent/weft.creds"}, "read credentials: open /nonexistent/weft.creds"},
		"a file of something else":   {url, bus.Keys{CA: authority.File, CredentialsFile: authority.File}, "not a .creds file"},
		"too few permissions":        {url, bus.Keys{CA: authority.File, CredentialsFile: o.user([]string{"weft.>"}, subscribe)}, "must allow more"},
		"an account without streams": {withoutStreams, bus.Keys{CA: authority.File, CredentialsFile: mute.user(nil, nil)}, "must have JetStream"},
		"no server":                  {"tls://" + freePort(t).String(), bus.Keys{CA: authority.File, CredentialsFile: good}, "no server answers at this address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, atCluster("a", "b", c.url, c.keys))
			var said string
			for end := time.Now().Add(patience); !strings.Contains(said, c.want); time.Sleep(10 * time.Millisecond) {
				if s := b.Status(t.Context()); s.Err != nil {
					said = s.Err.Error()
				}
				if time.Now().After(end) {
					t.Fatalf("it says %q, want %q", said, c.want)
				}
			}
			// and of the peer's stream the same
			e := await(t, b, "the peer cannot be read either", left)
			t.Log(e.Left.Err)
			// a publisher that could not write is not blocked
			if err := b.Publish([]byte("x")); err == nil {
				t.Error("it writes")
			}
		})
	}
}

func TestFilesThatCannotBeUsedAreFound(t *testing.T) {
	a, o := bustest.NewAuthority(t), newOperator(t, true)
	certificate, key := a.Router("left")
	junk := write(t, "junk", "not what it should be, by far")
	for name, c := range map[string]struct {
		keys bus.Keys
		want string // the key, and what of the text
	}{
		"all there":             {bus.Keys{CA: a.File, Certificate: certificate, Key: key}, ""},
		"credentials":           {bus.Keys{CA: a.File, CredentialsFile: o.user(nil, nil)}, ""},
		"ca is not there":       {bus.Keys{CA: "/nonexistent/ca", Certificate: certificate, Key: key}, "ca: open /nonexistent/ca"},
		"key is not there":      {bus.Keys{CA: a.File, Certificate: certificate, Key: "/nonexistent/key"}, "key: open /nonexistent/key"},
		"a directory":           {bus.Keys{CA: t.TempDir()}, "ca: read "},
		"ca is no certificate":  {bus.Keys{CA: junk}, "ca: read ca " + junk},
		"another key":           {bus.Keys{CA: a.File, Certificate: certificate, Key: a.File}, "certificate: read certificate and key"},
		"no credentials in it":  {bus.Keys{CredentialsFile: junk}, "credentials: read credentials " + junk},
		"an empty password":     {bus.Keys{User: "weft", PasswordFile: write(t, "empty", "\n")}, "password_file: read password"},
		"a short shared secret": {bus.Keys{PasswordFile: write(t, "short", "short")}, "password_file: read password"},
	} {
		t.Run(name, func(t *testing.T) {
			list := c.keys.Faults()
			switch {
			case c.want == "" && len(list) > 0:
				t.Errorf("found %v", list)
			case c.want != "" && (len(list) != 1 || !strings.HasPrefix(list[0].Key+": "+list[0].What, c.want)):
				t.Errorf("found %v, want %s", list, c.want)
			}
		})
	}
}
