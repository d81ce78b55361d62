package rig

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// L2TPNS says what an l2tpns(8) serves.
type L2TPNS struct {
	LocalAddr netip.Addr   // where tunnels arrive
	Pool      netip.Prefix // IPv4
	RADIUS    netip.AddrPort
	Secret    string // with RADIUS, and with the other server
	Realm     string // what the logins have in them that belong to another server
	Other     netip.AddrPort
}

// RunL2TPNS starts l2tpns in the router. It is its cluster's only member, for which
// it has to wait, and sends no requests of its own to peers and subscribers.
func (p *Path) RunL2TPNS(ctx context.Context, o L2TPNS) error {
	config := filepath.Join(p.dir, "l2tpns.conf")
	text := fmt.Sprintf(`set debug 1
set log_file %q
set pid_file %q
set primary_radius %s
set primary_radius_port %d
set radius_secret %q
set radius_authtypes "pap"
set bind_address %s
set cli_bind_address 127.0.0.1
set peer_address %s
set disable_sending_hello yes
set echo_timeout 3600
set idle_echo_timeout 7200
set allow_duplicate_users yes
set cluster_interface "lo"
set cluster_hb_interval 1
set cluster_hb_timeout 3
set multi_read_count 100
`, filepath.Join(p.dir, "l2tpns.log"), filepath.Join(p.dir, "l2tpns.pid"), o.RADIUS.Addr(), o.RADIUS.Port(), o.Secret, o.LocalAddr, o.LocalAddr)
	if o.Realm != "" {
		text += fmt.Sprintf("setforward %s %s %d %s\n", o.Realm, o.Other.Addr(), o.Other.Port(), o.Secret)
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	pool := filepath.Join(p.dir, "ip_pool")
	if err := os.WriteFile(pool, []byte(o.Pool.String()+"\n"), 0o644); err != nil {
		return err
	}
	// the pool has a fixed place: it gets one of its own
	script := strings.Join([]string{
		"mount --bind " + pool + " /etc/l2tpns/ip_pool",
		"exec l2tpns -c " + config,
	}, " && ")
	pr, err := p.launch(p.Router, "l2tpns", nil, "unshare", "--mount", "--propagation", "private", "sh", "-c", script)
	if err != nil {
		return err
	}
	p.l2tpns = pr.pid
	return pr.until(ctx, func() (up bool, err error) {
		_, err = DeviceIndex(p.Router, "tun0")
		return err == nil, nil
	})
}
