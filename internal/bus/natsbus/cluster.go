package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weft/internal/bus"
)

// clusterOptions are how a router shows an operator's cluster who it is, and
// how it knows that cluster.
func clusterOptions(k bus.Keys) (list []nats.Option, err error) {
	config, err := k.TLS()
	if err != nil {
		return nil, err
	}
	if config != nil {
		config.MinVersion = tls.VersionTLS12 // it is not ours
		list = append(list, nats.Secure(config))
	}
	if k.User != "" {
		password, err := k.Password()
		if err != nil {
			return nil, err
		}
		list = append(list, nats.UserInfo(k.User, password))
	}
	if k.CredentialsFile == "" {
		return list, nil
	}
	if err := k.Credentials(); err != nil {
		return nil, err
	}
	return append(list, nats.UserCredentials(k.CredentialsFile)), nil
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
		return add("the server does not take " + shown(k))
	case errors.Is(err, nats.ErrPermissionViolation):
		return add(shown(k) + " must allow more: docs/features/session-sync.md lists it")
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return add("the servers must have JetStream, and the account may use it")
	case errors.Is(err, nats.ErrNoServers):
		return add("no server answers at this address")
	}
	return fmt.Errorf("%s: %w", at, err)
}

// shown returns what a cluster is shown.
func shown(k bus.Keys) string {
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
