package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// TLS reads the files; nil without any.
func (k Keys) TLS() (*tls.Config, error) {
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

// Password reads the file; empty without one.
func (k Keys) Password() (string, error) {
	if k.PasswordFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(k.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	p := strings.TrimSpace(string(text))
	if least := k.leastPassword(); len(p) < least {
		return "", fmt.Errorf("read password: %s has %d characters, the minimum is %d", k.PasswordFile, len(p), least)
	}
	return p, nil
}

// leastPassword is how long a password must be: one that all routers share is
// weft's to judge, a user's at an operator's cluster is not.
func (k Keys) leastPassword() int {
	if k.User != "" {
		return 1
	}
	return 16
}

// Credentials reads the file as nats.go will, which would not say which one it
// was.
func (k Keys) Credentials() error {
	text, err := os.ReadFile(k.CredentialsFile)
	if err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	_, err = nkeys.ParseDecoratedJWT(text)
	if err == nil {
		_, err = nkeys.ParseDecoratedUserNKey(text)
	}
	if err != nil {
		return fmt.Errorf("read credentials %s: not a .creds file with a user JWT and seed: %w", k.CredentialsFile, err)
	}
	return nil
}

// Fault is what is wrong with a file of Keys; Key is that of weft.toml.
type Fault struct{ Key, What string }

// Faults looks at the files, as far as this process may read them.
func (k Keys) Faults() (list []Fault) {
	for key, file := range map[string]string{"ca": k.CA, "certificate": k.Certificate, "key": k.Key, "password_file": k.PasswordFile, "credentials": k.CredentialsFile} {
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil && !errors.Is(err, os.ErrPermission) {
			list = append(list, Fault{key, err.Error()})
		}
	}
	if len(list) > 0 {
		return list
	}
	add := func(key string, err error) {
		if err != nil && !errors.Is(err, os.ErrPermission) {
			list = append(list, Fault{key, err.Error()})
		}
	}
	if config, err := (Keys{CA: k.CA}).TLS(); config == nil {
		add("ca", err)
	} else if _, err := k.TLS(); err != nil {
		add("certificate", err)
	}
	_, err := k.Password()
	add("password_file", err)
	if k.CredentialsFile != "" {
		add("credentials", k.Credentials())
	}
	return list
}
