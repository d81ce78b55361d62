package lns

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"weft/internal/bench/rig"
)

func TestTryL2TPNS(t *testing.T) {
	if os.Getuid() != 0 { t.Skip("needs root") }
	if _, err := exec.LookPath("l2tpns"); err != nil { t.Skip("needs l2tpns") }
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	p, err := rig.NewPath(rig.PathOptions{Name: "try", Lan: left, Wan: right, Forward: true})
	if err != nil { t.Fatal(err) }
	defer func() { if err := p.Close(context.Background()); err != nil { t.Error(err) } }()
	rad := netip.MustParseAddrPort("127.0.0.1:1812")
	stop, err := welcome(p.Router, rad)
	if err != nil { t.Fatal(err) }
	defer stop()
	if err := p.RunL2TPNS(ctx, rig.L2TPNS{Here: left.Router[1].Addr(), Pool: pool, RADIUS: rad, Secret: secret}); err != nil { t.Fatal(err) }
	n := 1
	if os.Getenv("N") == "1000" { n = 1000 }
	if os.Getenv("N") == "30000" { n = 30000 }
	l, err := newLAC(p.Left, netip.AddrPortFrom(left.Host[1].Addr(), 1701), netip.AddrPortFrom(left.Router[1].Addr(), 1701), max(1, n/500), n)
	if err != nil { t.Fatal(err) }
	took, err := l.bringUp(ctx)
	t.Log(took, err, l.up)
	if n == 1 { s := l.sessions[0]; t.Logf("%+v %+v", *s, *s.tunnel)
	 p.Router.Do(func() error { out, _ := exec.Command("sh", "-c", "ip a; ip r").CombinedOutput(); t.Logf("%s", out); return nil }) }
	time.Sleep(50*time.Millisecond)
	t.Log(l.Close())
}
