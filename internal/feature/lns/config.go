// Package lns declares the sections [lns.NAME], an L2TP network server (LNS), and
// [l2tp_client.NAME], an L2TP client, both L2TPv2 (RFC 2661) with PPP.
// internal/subscriber is their engine.
package lns

import (
	"net/netip"
	"time"

	"weft/internal/config"
	"weft/internal/ppp"
	"weft/internal/state"
	"weft/internal/subscriber"
)

// Config is [lns.NAME].
type Config struct {
	Listen       []netip.Addr          `toml:"listen" required:"true" example:"[\"192.0.2.1\", \"2001:db8::1\"]" doc:"The router's own addresses at which LACs reach it, port 1701."`
	HostName     string                `toml:"host_name" example:"\"lns1\"" doc:"The Host Name AVP and PPP name of this router. Default: NAME."`
	LACs         []LAC                 `toml:"lacs" example:"[{ name = \"dsl\", address = \"198.51.100.0/24\", secret = \"between us\" }]" doc:"The LACs that may set up tunnels."`
	Hello        time.Duration         `toml:"hello" min:"1s" max:"1h" example:"\"1m\"" doc:"Time of silence after which weft sends an L2TP Hello to the peer of a tunnel (RFC 2661 section 6.5)."`
	Echo         time.Duration         `toml:"lcp_echo" was:"echo" min:"0s" max:"1h" example:"\"30s\"" doc:"Interval of LCP echo requests to each subscriber (RFC 1661 section 5.8); four unanswered ones end the session. \"0s\": none."`
	MRU          int                   `toml:"mru" min:"576" max:"1500" example:"1460" doc:"The largest IP packet of a subscriber, in bytes. 1460 fits a path of 1500 bytes over IPv4 with L2TP and PPP headers, 1440 over IPv6."`
	Methods      []ppp.Method          `toml:"authentication" enum:"pap,chap,mschapv2" example:"[\"chap\", \"pap\"]" doc:"The PPP authentication protocols to offer, in this order. Default: chap, then mschapv2. pap only if it is here: it sends the password itself. []: no authentication."`
	Users        []User                `toml:"users" example:"[{ login = \"alice@example.net\", password = \"a secret\" }]" doc:"Users of this router. They are checked before RADIUS."`
	Forward      []Forward             `toml:"forward" example:"[{ realm = \"example.org\", server = \"192.0.2.99\", secret = \"between them\" }]" doc:"Realms of another LNS: weft forwards their sessions to it, as LAC (tunnel switching), after it has authenticated them. RADIUS selects the same with Tunnel-Type, Tunnel-Server-Endpoint and Tunnel-Password."`
	UsersFile    string                `toml:"users_file" example:"\"/etc/weft/members.toml\"" doc:"A file with more users, followed while weft runs: [subscribers] with the key users, or [[subscribers.users]] for each. Only root may be able to read it."`
	RADIUS       []RADIUS              `toml:"radius" example:"[{ server = \"192.0.2.53:1812\", secret = \"with RADIUS\" }]" doc:"The RADIUS servers for all other subscribers; the first that answers is used."`
	NASIdent     string                `toml:"nas_identifier" example:"\"lns1\"" doc:"The NAS-Identifier of this router. Default: host_name."`
	Dynamic      []Dynamic             `toml:"dynamic_authorization" example:"[{ client = \"192.0.2.53\", secret = \"with RADIUS\" }]" doc:"The clients that may send CoA and Disconnect requests (RFC 5176), at UDP port 3799 of the addresses of listen."`
	Gateway      netip.Addr            `toml:"gateway" ip:"4" example:"\"203.0.113.1\"" doc:"The router's IPv4 address on every session; weft adds it to the section's device. Default: the first address of the first pool. An address of listen does not work for subscribers that are their own LAC: they would send the tunnel's packets into the tunnel."`
	Pools        []Pool                `toml:"pools" example:"[{ addresses = [\"203.0.113.0/24\"] }]" doc:"The IPv4 addresses for subscribers, and more IPv6 pools. Without IPv4 addresses, only subscribers with an address of their own have IPv4."`
	Leases       string                `toml:"leases" example:"\"/var/lib/weft/members.leases\"" doc:"The file that stores which login had which address and prefixes of the pools, so that each login gets the same again after a reboot. Without it they are stored until the machine stops."`
	IPv6         bool                  `toml:"ipv6" example:"true" doc:"Subscribers have IPv6."`
	Prefixes     []netip.Prefix        `toml:"prefixes" ip:"6" example:"[\"2001:db8:1000::/48\"]" doc:"The prefixes from which each session is advertised a /64."`
	Delegate     []netip.Prefix        `toml:"delegate" ip:"6" example:"[\"2001:db8:2000::/36\"]" doc:"The prefixes from which each session may get a delegated prefix by DHCPv6."`
	Addresses6   []netip.Prefix        `toml:"ipv6_addresses" ip:"6" example:"[\"2001:db8:3000::/64\"]" doc:"The prefixes from which each session may get one IPv6 address by DHCPv6 (IA_NA), for routers that request one besides the advertised /64."`
	DelegateBits int                   `toml:"delegated_len" was:"delegate_bits" min:"32" max:"64" example:"56" doc:"The length of a delegated prefix."`
	DNS          []netip.Addr          `toml:"dns" example:"[\"192.0.2.53\", \"2001:db8::53\"]" doc:"The name servers, of both families: IPv4 by IPCP (RFC 1877, two at most), IPv6 by router advertisements and DHCPv6."`
	PREF64       []netip.Prefix        `toml:"pref64" ip:"6" example:"[\"64:ff9b::/96\"]" doc:"The prefixes of translators (PREF64, RFC 8781), by router advertisements. Default: those of the [nat64.NAME] sections that serve an [interface.NAME] whose device is lns-NAME; []: none."`
	Duplicates   subscriber.Duplicates `toml:"duplicates" enum:"refuse,replace,allow" example:"\"replace\"" doc:"A second session of the same login is rejected, ends the first session, or both continue."`
	MaxSessions  int                   `toml:"max_sessions" min:"0" max:"65535" example:"30000" doc:"Maximum number of sessions; 0: the maximum of the tables."`
	Up           int64                 `toml:"rate_up" was:"up" min:"0" example:"20_000_000" doc:"Upstream rate limit of a subscriber, in bit/s, unless it has one of its own; 0: none."`
	Down         int64                 `toml:"rate_down" was:"down" min:"0" example:"100_000_000" doc:"Downstream rate limit of a subscriber, in bit/s; 0: none."`
	WalledGarden []netip.Prefix        `toml:"walled_garden" was:"garden" ip:",bare" example:"[\"192.0.2.80\"]" doc:"The prefixes that subscribers in the walled garden can reach."`
	Portal       string                `toml:"captive_portal" example:"\"https://pay.example.net/api\"" doc:"The URI of the captive portal's API (RFC 8908), which router advertisements and DHCPv6 announce to hosts of subscribers in the walled garden (RFC 8910). The walled garden must contain its address, and a name server."`
	SessionTime  time.Duration         `toml:"session_timeout" min:"0s" example:"\"24h\"" doc:"Session timeout; \"0s\": none."`
	IdleTime     time.Duration         `toml:"idle_timeout" min:"0s" example:"\"0s\"" doc:"Idle timeout: time without a packet from the subscriber after which its session ends; \"0s\": none."`
	Interim      time.Duration         `toml:"acct_interim_interval" was:"interim" min:"0s" example:"\"10m\"" doc:"Interval of RADIUS Interim-Updates; \"0s\": only if RADIUS requests them."`
}

// LAC is an L2TP access concentrator that may set up tunnels.
type LAC struct {
	Name     string       `toml:"name" example:"\"dsl\"" doc:"Its name in weft show. Default: its host name or address."`
	Address  netip.Prefix `toml:"address" required:"true" ip:",bare" example:"\"198.51.100.0/24\"" doc:"Its source addresses."`
	HostName string       `toml:"host_name" example:"\"lac1\"" doc:"The required Host Name AVP; without it, any."`
	Secret   string       `toml:"secret" example:"\"between us\"" doc:"The tunnel's secret, by which both sides authenticate each other (RFC 2661 section 5.1.1). Without one there is no authentication."`
	Hide     bool         `toml:"hide_avps" was:"hide" example:"true" doc:"Encrypts values in control messages (hidden AVPs, RFC 2661 section 4.3)."`
}

// User is a subscriber.
type User struct {
	Login        string         `toml:"login" required:"true" example:"\"alice@example.net\"" doc:"The login."`
	Password     string         `toml:"password" example:"\"a secret\"" doc:"The password."`
	Hash         string         `toml:"password_hash" example:"\"$2y$10$...\"" doc:"Instead of the password its bcrypt hash (htpasswd -nB LOGIN): the subscriber can log in with PAP only, because CHAP needs the password itself on both sides (RFC 1994 section 2.1)."`
	IPv4         netip.Addr     `toml:"ipv4" ip:"4" example:"\"203.0.113.5\"" doc:"Its own IPv4 address."`
	NoIPv4       bool           `toml:"no_ipv4" example:"false" doc:"No IPv4 for this user."`
	IPv6         netip.Addr     `toml:"ipv6" ip:"6" example:"\"2001:db8:3::5\"" doc:"Its IPv6 address by DHCPv6."`
	Prefix       netip.Prefix   `toml:"prefix" ip:"6" example:"\"2001:db8:4:5::/64\"" doc:"Its own advertised prefix."`
	Delegated    netip.Prefix   `toml:"delegated" ip:"6" example:"\"2001:db8:500::/56\"" doc:"Its own delegated prefix."`
	Routes       []netip.Prefix `toml:"routes" example:"[\"198.51.100.8/29\"]" doc:"Further prefixes that are routed to it."`
	Pool         string         `toml:"pool" example:"\"homes\"" doc:"The pool for its addresses and prefixes; addresses and prefixes that the pool lacks come from the common pools."`
	Up           int64          `toml:"rate_up" was:"up" min:"0" example:"20_000_000" doc:"Upstream rate limit, in bit/s."`
	Down         int64          `toml:"rate_down" was:"down" min:"0" example:"100_000_000" doc:"Downstream rate limit, in bit/s."`
	WalledGarden bool           `toml:"walled_garden" was:"garden" example:"false" doc:"Its session is in the walled garden."`
	SessionTime  time.Duration  `toml:"session_timeout" min:"0s" example:"\"24h\"" doc:"Session timeout."`
	IdleTime     time.Duration  `toml:"idle_timeout" min:"0s" example:"\"1h\"" doc:"Idle timeout."`
}

// Subscriber returns the user as the engine knows it.
func (u *User) Subscriber() subscriber.User {
	var pools *subscriber.Pools6
	if u.Pool != "" {
		pools = &subscriber.Pools6{Prefix: u.Pool, Delegated: u.Pool, Address: u.Pool}
	}
	return subscriber.User{Login: u.Login, Password: u.Password, Hash: u.Hash, Profile: subscriber.Profile{
		IPv4: u.IPv4, NoIPv4: u.NoIPv4, Pool: u.Pool, Pools6: pools, IPv6: u.IPv6, Prefix: u.Prefix, Delegated: u.Delegated, Routes: u.Routes,
		Up: uint64(u.Up), Down: uint64(u.Down), WalledGarden: u.WalledGarden, SessionTimeout: u.SessionTime, IdleTimeout: u.IdleTime,
	}}
}

// Forward sends the sessions of a realm to another server.
type Forward struct {
	Realm    string `toml:"realm" required:"true" example:"\"example.org\"" doc:"The realm: the part of the login after the @."`
	Server   string `toml:"server" required:"true" example:"\"192.0.2.99\"" doc:"The server's name or address, with a port unless it is 1701."`
	Secret   string `toml:"secret" example:"\"between them\"" doc:"The tunnel's secret, if the server has one."`
	Hide     bool   `toml:"hide_avps" was:"hide" example:"true" doc:"Encrypts values in control messages (hidden AVPs), for instance the password of a subscriber that uses PAP."`
	HostName string `toml:"host_name" example:"\"lac1\"" doc:"The Host Name AVP of this router there. Default: the section's host_name."`
}

// Pool is a set of addresses and prefixes.
type Pool struct {
	Name       string         `toml:"name" example:"\"homes\"" doc:"The name of the pool for users and RADIUS (Framed-Pool, Framed-IPv6-Pool, Delegated-IPv6-Prefix-Pool, Stateful-IPv6-Address-Pool)."`
	Addresses  []netip.Prefix `toml:"addresses" ip:"4" example:"[\"203.0.113.0/24\"]" doc:"IPv4 addresses."`
	Prefixes   []netip.Prefix `toml:"prefixes" ip:"6" example:"[\"2001:db8:1100::/48\"]" doc:"Like prefixes of the section."`
	Delegate   []netip.Prefix `toml:"delegate" ip:"6" example:"[\"2001:db8:2100::/40\"]" doc:"Like delegate of the section."`
	Addresses6 []netip.Prefix `toml:"ipv6_addresses" ip:"6" example:"[\"2001:db8:3100::/64\"]" doc:"Like ipv6_addresses of the section."`
	Only       bool           `toml:"only_by_name" example:"false" doc:"Use this pool only for users that name it."`
}

// RADIUS is one RADIUS server.
type RADIUS struct {
	Server     netip.AddrPort `toml:"server" required:"true" example:"\"192.0.2.53:1812\"" doc:"Address and port for authentication."`
	Accounting netip.AddrPort `toml:"accounting" example:"\"192.0.2.53:1813\"" doc:"Address and port for accounting. Default: the same address, the next port."`
	Secret     string         `toml:"secret" required:"true" example:"\"with RADIUS\"" doc:"The secret shared with it."`
	Timeout    time.Duration  `toml:"timeout" min:"100ms" max:"30s" example:"\"2s\"" doc:"Timeout of one attempt. Default: 2s."`
	Tries      int            `toml:"tries" min:"0" max:"10" example:"3" doc:"Number of attempts before the next server. Default: 3."`
	Unsigned   bool           `toml:"unsigned" example:"false" doc:"Accept responses of this server without a Message-Authenticator. By default such responses are discarded, because they can be forged (CVE-2024-3596)."`
}

// Dynamic may change and end sessions (RFC 5176).
type Dynamic struct {
	Client netip.Prefix `toml:"client" required:"true" ip:",bare" example:"\"192.0.2.53\"" doc:"Its source addresses."`
	Secret string       `toml:"secret" required:"true" example:"\"with RADIUS\"" doc:"The secret shared with it."`
	// Unsigned is the way out for servers that are older than CVE-2024-3596.
	Unsigned bool `toml:"unsigned" example:"false" doc:"Accept requests without a Message-Authenticator from this client. By default such requests are discarded."`
}

// ClientConfig is [l2tp_client.NAME].
type ClientConfig struct {
	Server    string        `toml:"server" required:"true" example:"\"lns.example.net\"" doc:"The server's name or address, with a port unless it is 1701."`
	Secret    string        `toml:"secret" example:"\"between us\"" doc:"The tunnel's secret, if the server has one."`
	Hide      bool          `toml:"hide_avps" was:"hide" example:"false" doc:"Encrypts values in control messages (hidden AVPs)."`
	HostName  string        `toml:"host_name" example:"\"home\"" doc:"The Host Name AVP of this router. Default: NAME."`
	Login     string        `toml:"login" example:"\"alice@example.net\"" doc:"The login."`
	Password  string        `toml:"password" example:"\"a secret\"" doc:"The password."`
	Methods   []ppp.Method  `toml:"authentication" enum:"pap,chap,mschapv2" example:"[\"chap\", \"mschapv2\"]" doc:"The PPP authentication protocols to accept from the server. Default: chap and mschapv2. pap only if it is here: it gives the password to the server that answers."`
	IPv4      bool          `toml:"ipv4" example:"true" doc:"Request an IPv4 address."`
	IPv6      bool          `toml:"ipv6" example:"true" doc:"Request IPv6."`
	Prefix    bool          `toml:"prefix_delegation" was:"prefix" example:"true" doc:"Request a delegated prefix (DHCPv6)."`
	Delegate  []string      `toml:"delegate_to" example:"[\"lan\"]" doc:"The NAMEs of the interfaces that get a /64 each of the delegated prefix, in this order. [ra.NAME] advertises them."`
	Default   []string      `toml:"default_route" enum:"4,6" example:"[\"6\"]" doc:"The address families with a default route to the server: 4, 6. It is added beside default routes of the host, with metric 1 (IPv4) and 1025 (IPv6)."`
	MRU       int           `toml:"mru" min:"576" max:"1500" example:"1460" doc:"The largest IP packet, in bytes."`
	Keepalive time.Duration `toml:"keepalive" min:"1s" max:"1h" example:"\"30s\"" doc:"Interval of L2TP Hello and LCP echo requests to the server."`
	Retry     time.Duration `toml:"retry" min:"1s" max:"1h" example:"\"5m\"" doc:"Maximum pause between attempts; the first is one second, each further one is twice as long."`
}

// Section is what config.Load needs to read [lns.NAME].
func Section() config.Section {
	return config.Section{
		Name:  "lns",
		Was:   "access",
		Roles: state.RoleSubscribers,
		Named: true,
		Doc:   "An L2TP network server (LNS) for subscribers' PPP sessions.",
		New: func(name string) any {
			return &Config{HostName: name, Hello: time.Minute, Echo: 30 * time.Second, MRU: 1460, IPv6: true, DelegateBits: 56, Duplicates: subscriber.DuplicatesReplace}
		},
		Check: func(c *config.Checker, name string, s any) { checkServer(c, name, s.(*Config)) },
	}
}

// ClientSection is what config.Load needs to read [l2tp_client.NAME].
func ClientSection() config.Section {
	return config.Section{
		Name:  "l2tp_client",
		Roles: state.RoleSubscribers,
		Named: true,
		Doc:   "An L2TP client: this router's own PPP session with an L2TP server.",
		New: func(name string) any {
			return &ClientConfig{HostName: name, IPv4: true, IPv6: true, MRU: 1460, Keepalive: 30 * time.Second, Retry: 5 * time.Minute}
		},
		Check: func(c *config.Checker, name string, s any) { checkClient(c, name, s.(*ClientConfig)) },
	}
}

// From returns the section [lns.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("lns", name).(*Config)
	return c
}

// ClientFrom returns the section [l2tp_client.NAME] of f, nil if there is none.
func ClientFrom(f *config.File, name string) *ClientConfig {
	c, _ := f.Get("l2tp_client", name).(*ClientConfig)
	return c
}

// Device is the name of the device on which a section's subscribers are.
func Device(name string) string { return "lns-" + name }

// ClientDevice is that of a client.
func ClientDevice(name string) string { return "l2tp-" + name }
