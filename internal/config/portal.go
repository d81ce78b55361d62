package config

import (
	"fmt"
	"net/netip"
	"net/url"
)

// portalMost is how long a portal's URI may be, so that it fits an option of
// every protocol that tells of it.
const portalMost = 240

// Portal checks the URI of a captive portal's API: clients take https only
// (RFC 8908 section 4), and cannot check the certificate of an address (RFC
// 8910 section 2).
func (c *Checker) Portal(key, uri string) {
	if uri == "" {
		return
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		c.Error(key, fmt.Sprintf("%q is no URI of a captive portal's API", uri), `like "https://pay.example.net/api": RFC 8908 has it over https only`)
	case len(uri) > portalMost:
		c.Error(key, fmt.Sprintf("it has %d bytes", len(uri)), fmt.Sprintf("at most %d", portalMost))
	default:
		if _, err := netip.ParseAddr(u.Hostname()); err == nil {
			c.Error(key, fmt.Sprintf("%s is an address: hosts could not check its certificate", u.Hostname()), "a name, RFC 8910 section 2")
		}
	}
}
