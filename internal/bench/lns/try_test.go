package lns

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
	"weft/internal/state"
)

func TestTryTCP(t *testing.T) {
	ctx := t.Context()
	p, err := rig.NewPath(rig.PathOptions{Name: "try", Lan: left, Wan: right, Forward: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	tb, list, err := newTables(p, 1000, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	e, err := newEnd(p.Left)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := list[0]
	err = e.serve(state.AccessTunnel{Local: s.tunnel.id, Remote: s.tunnel.peer, Here: netip.AddrPortFrom(left.Host[1].Addr(), 1701), Peer: netip.AddrPortFrom(left.Router[1].Addr(), 1701)},
		state.AccessSession{Local: s.id, Remote: s.peer, IPv4: netip.AddrFrom4(s.addr)}, right.Host[1].Addr())
	if err != nil {
		t.Fatal(err)
	}
	show := func() {
		a, _ := tb.datapath.Counts()
		t.Log("lns", a)
		b, _ := e.datapath.Counts()
		t.Log("sub", b)
		p.Left.Do(func() error {
			out, _ := exec.Command("sh", "-c", "ip -s a; ip r; nstat -a | egrep 'Drop|Err|Retr|InDel|Hdr|Addr|OutSegs'").CombinedOutput()
			t.Logf("%s", out)
			return nil
		})
	}
	if err := p.Ping(ctx, p.Left, right.Host[1].Addr()); err != nil {
		show()
		t.Fatal(err)
	}
	if err := p.ServeTCP(ctx, p.Right); err != nil {
		t.Fatal(err)
	}
	if err := p.ServeTCP(ctx, p.Left); err != nil {
		t.Fatal(err)
	}
	up, err := p.TCP(ctx, p.Left, right.Host[1].Addr(), 1, 3)
	t.Log("up", up, err)
	if v := os.Getenv("OFF"); v != "" {
		for sp, dev := range map[*netspace.Space]string{p.Router: "lan"} {
			sp.Do(func() error {
				out, err := exec.Command("sh", "-c", "ethtool -K "+dev+" "+v).CombinedOutput()
				t.Log(string(out), err)
				return nil
			})
		}
	}
	down, err := p.TCP(ctx, p.Right, netip.AddrFrom4(s.addr), 1, 3)
	t.Log("down", down, err)
	show()
}
