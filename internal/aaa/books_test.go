package aaa

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2866"

	"weft/internal/feature/access"
)

// What no server has taken is told by the next process, or to the servers of the
// next file: nothing is lost, and a session's end least of all.
func TestAccountsThatNobodyTookAreLeft(t *testing.T) {
	dead, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close() // it never answers
	at := dead.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, many := range []int{1, 3, 600} { // fewer and more than are told at a time
		c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: at, Accounting: at, Secret: "with RADIUS", Timeout: 20 * time.Millisecond, Tries: 1}})
		c.pause = 5 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		var want []string
		for i := range many {
			id := fmt.Sprint(i)
			want = append(want, id)
			c.Account(ctx, &access.Account{Kind: access.AccountStop, ID: id, Login: "alice", At: time.Now(), Reason: access.ReasonIdle}, access.Traffic{UpBytes: 1 << 40})
		}
		time.Sleep(time.Duration(many%7) * 10 * time.Millisecond) // some are on their way
		cancel()
		var got []string
		for _, one := range c.Leave() {
			b, err := json.Marshal(one)
			var again Book
			if err == nil {
				err = json.Unmarshal(b, &again)
			}
			if err != nil || again.Total != one.Total || again.Account.Reason != access.ReasonIdle || !again.Account.At.Equal(one.Account.At) || !reflect.DeepEqual(again.Account.Profile, one.Account.Profile) {
				t.Fatalf("%s: %+v, %v", b, again, err)
			}
			got = append(got, one.Account.ID)
		}
		c.Close()
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("of %d accounts %d are left", len(want), len(got))
		}
	}
	told := make(chan *radius.Packet, 10)
	live := bookkeeper(t, told, func(*radius.Packet) bool { return true })
	next := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: live, Accounting: live, Secret: "with RADIUS"}})
	t.Cleanup(next.Close)
	next.Account(t.Context(), &access.Account{Kind: access.AccountStop, ID: "a1", At: time.Now()}, access.Traffic{})
	if p := <-told; rfc2866.AcctSessionID_GetString(p) != "a1" {
		t.Errorf("told is %v", p.Attributes)
	}
	// what is told does not wait any more
	for i := 0; len(next.HandOver()) > 0 && i < 100; i++ {
		t.Error("it waits although it was told")
	}
}
