package aaa

import (
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2868"
)

// Tunnel attributes (RFC 2868) say where a session goes on to.
func TestTunnelAttributes(t *testing.T) {
	asked := radius.New(radius.CodeAccessRequest, []byte("with RADIUS"))
	for name, c := range map[string]struct {
		fill func(p *radius.Packet)
		want Tunnel
	}{
		"none": {func(*radius.Packet) {}, Tunnel{}},
		"L2TP, tagged": {func(p *radius.Packet) {
			_ = rfc2868.TunnelType_Set(p, 1, rfc2868.TunnelType_Value_L2TP)
			_ = rfc2868.TunnelServerEndpoint_SetString(p, 1, "192.0.2.99")
			_ = rfc2868.TunnelClientAuthID_SetString(p, 1, "carrier")
			_ = rfc2868.TunnelPassword_SetString(p, 1, "between them")
		}, Tunnel{Server: "192.0.2.99", Name: "carrier", Secret: "between them"}},
		"the one that is preferred, and what is said of all": {func(p *radius.Packet) {
			for tag, server := range []string{1: "192.0.2.97", 2: "192.0.2.98", 3: "192.0.2.99"} {
				if server != "" {
					_ = rfc2868.TunnelType_Add(p, byte(tag), rfc2868.TunnelType_Value_L2TP)
					_ = rfc2868.TunnelServerEndpoint_AddString(p, byte(tag), server)
				}
			}
			_ = rfc2868.TunnelPreference_Add(p, 2, 20)
			_ = rfc2868.TunnelPreference_Add(p, 3, 10)
			_ = rfc2868.TunnelPassword_AddString(p, 2, "between two")
			_ = rfc2868.TunnelPassword_AddString(p, 3, "between three")
			_ = rfc2868.TunnelClientAuthID_SetString(p, 0, "carrier")
		}, Tunnel{Server: "192.0.2.99", Name: "carrier", Secret: "between three"}},
		"L2TP behind another kind": {func(p *radius.Packet) {
			_ = rfc2868.TunnelType_Add(p, 1, rfc2868.TunnelType_Value_PPTP)
			_ = rfc2868.TunnelType_Add(p, 2, rfc2868.TunnelType_Value_L2TP)
			_ = rfc2868.TunnelServerEndpoint_AddString(p, 1, "192.0.2.98")
			_ = rfc2868.TunnelServerEndpoint_AddString(p, 2, "192.0.2.99")
		}, Tunnel{Server: "192.0.2.99"}},
		"another kind of tunnel": {func(p *radius.Packet) {
			_ = rfc2868.TunnelType_Set(p, 0, rfc2868.TunnelType_Value_PPTP)
			_ = rfc2868.TunnelServerEndpoint_SetString(p, 0, "192.0.2.99")
		}, Tunnel{}},
	} {
		p := asked.Response(radius.CodeAccessAccept)
		p.Secret = asked.Secret
		c.fill(p)
		got, err := profileOf(p, asked)
		if err != nil || got.Tunnel != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got.Tunnel, err, c.want)
		}
	}
}
