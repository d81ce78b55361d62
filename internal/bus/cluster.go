package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// clusterOptions are how a router shows an operator's cluster who it is, and
// how it knows that cluster.
func (k Keys) clusterOptions() (list []nats.Option, err error) {
	config, err := k.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		config.MinVersion = tls.VersionTLS12 // it is not ours
		list = append(list, nats.Secure(config))
	}
	if k.User != "" {
		password, err := k.password()
		if err != nil {
			return nil, err
		}
		list = append(list, nats.UserInfo(k.User, password))
	}
	if k.CredentialsFile == "" {
		return list, nil
	}
	if err := k.credentials(); err != nil {
		return nil, err
	}
	return append(list, nats.UserCredentials(k.CredentialsFile)), nil
}

// credentials reads the file as nats.go will, which would not say which one it
// was.
func (k Keys) credentials() error {
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

// explain adds to what a connection ends with which part of the settings it is
// about.
func (b *Bus) explain(err error) error {
	if len(b.settings.Cluster) == 0 {
		return err
	}
	k, at := b.settings.Keys, strings.Join(b.settings.Cluster, ", ")
	add := func(what string) error { return fmt.Errorf("%s: %w (%s)", at, err, what) }
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &authority) && k.CA != "":
		return add("another authority than that of ca, " + k.CA + ", has signed the server's certificate")
	case errors.As(err, &authority):
		return add("this system does not know the authority of the server's certificate: name its file as ca")
	case errors.As(err, &name):
		return add("cluster wants a name that is in the server's certificate")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return add("the server does not take " + k.shown())
	case errors.Is(err, nats.ErrPermissionViolation):
		return add(k.shown() + " must allow more: docs/features/session-sync.md lists it")
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return add("the servers must have JetStream, and the account may use it")
	case errors.Is(err, nats.ErrNoServers):
		return add("no server answers at this address")
	}
	return fmt.Errorf("%s: %w", at, err)
}

// shown returns what a cluster is shown.
func (k Keys) shown() string {
	switch {
	case k.CredentialsFile != "":
		return "credentials, " + k.CredentialsFile
	case k.User != "":
		return fmt.Sprintf("user %q with the password of password_file, %s", k.User, k.PasswordFile)
	case k.Certificate != "":
		return "certificate, " + k.Certificate
	}
	return "a router without credentials, or user and password_file"
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
	if config, err := (Keys{CA: k.CA}).tlsConfig(); config == nil {
		add("ca", err)
	} else if _, err := k.tlsConfig(); err != nil {
		add("certificate", err)
	}
	_, err := k.password()
	add("password_file", err)
	if k.CredentialsFile != "" {
		add("credentials", k.credentials())
	}
	return list
}
