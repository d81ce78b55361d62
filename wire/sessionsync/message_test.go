package sessionsync_test

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"weft/internal/state"
	"weft/wire/sessionsync"
)

func record(what sessionsync.What) sessionsync.Record {
	return sessionsync.Record{What: what, Translator: "main", Shared: state.Shared{
		Protocol: 6, State: state.SessionEstablished,
		IPv6: netip.MustParseAddrPort("[2001:db8:1::2]:40000"), IPv4: netip.MustParseAddrPort("192.0.2.1:5555"),
		Remote6: netip.MustParseAddr("64:ff9b:1::c633:6409"), Remote4: netip.MustParseAddrPort("198.51.100.9:443"),
		Left: 90*time.Minute + 7*time.Millisecond, Age: time.Hour,
	}}
}

func messages() []*sessionsync.Message {
	other := record(sessionsync.Ending)
	other.Translator, other.Protocol, other.State = "other", 17, state.SessionActive
	longest := record(sessionsync.Put)
	longest.Translator = strings.Repeat("n", 255)
	return []*sessionsync.Message{
		{Kind: sessionsync.Begin, Dump: 7, Partial: true, Records: []sessionsync.Record{}},
		{Kind: sessionsync.Live, Records: []sessionsync.Record{record(sessionsync.Put), other, record(sessionsync.Replicate)}},
		{Kind: sessionsync.End, Dump: 1<<32 - 1, Records: []sessionsync.Record{}},
		{Kind: sessionsync.Live, Records: []sessionsync.Record{longest, record(sessionsync.Put)}},
	}
}

func marshal(t testing.TB, m *sessionsync.Message) []byte {
	t.Helper()
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, m := range messages() {
		got, err := sessionsync.Parse(marshal(t, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got  %+v (%v)\nwant %+v", got, err, m)
		}
	}
}

// A message of today is read by tomorrow's version.
func TestTheFormStays(t *testing.T) {
	want := "7766" + "01" + "01" + "00" + "00000000" + "01" + "046d61696e" + "0001" +
		"01" + "00" + "06" + "03" + "005265c7" + "00000e10" +
		"20010db8000100000000000000000002" + "9c40" + "0064ff9b0001000000000000c6336409" +
		"c0000201" + "15b3" + "c6336409" + "01bb"
	m := &sessionsync.Message{Kind: sessionsync.Live, Records: []sessionsync.Record{record(sessionsync.Put)}}
	if got := hex.EncodeToString(marshal(t, m)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatIsWrongIsRefused(t *testing.T) {
	good := marshal(t, messages()[1])
	for i := range good {
		if _, err := sessionsync.Parse(good[:i]); err == nil {
			t.Errorf("cut after %d of %d bytes it is still taken", i, len(good))
		}
	}
	at := len(good) - 3*58
	for name, c := range map[string]struct {
		change func([]byte)
		want   string
	}{
		"other":      {func(b []byte) { b[0] = 'x' }, "no message"},
		"version":    {func(b []byte) { b[2] = 2 }, "version 2"},
		"kind":       {func(b []byte) { b[3] = 9 }, "kind 9"},
		"flags":      {func(b []byte) { b[4] = 2 }, "flags 0x2"},
		"what":       {func(b []byte) { b[at] = 0 }, "not a kind of session update"},
		"translator": {func(b []byte) { b[at+1] = 2 }, "translator 2 of 2"},
		"protocol":   {func(b []byte) { b[at+2] = 47 }, "protocol 47"},
		"dead":       {func(b []byte) { b[at+3] = 255 }, "no state 255"},
		"udp state":  {func(b []byte) { b[at+2] = 17 }, "no state 3"},
		"tcp state":  {func(b []byte) { b[at+3] = 0 }, "no state 0"},
	} {
		b := append([]byte(nil), good...)
		c.change(b)
		if _, err := sessionsync.Parse(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	other := append([]byte(nil), good...)
	other[2] = 9
	if _, err := sessionsync.Parse(other); !errors.Is(err, sessionsync.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	m := &sessionsync.Message{Kind: sessionsync.Live, Records: make([]sessionsync.Record, sessionsync.MaxRecords+1)}
	if _, err := m.Append(nil); err == nil {
		t.Error("too many records are written")
	}
	m = &sessionsync.Message{Kind: sessionsync.Live, Records: []sessionsync.Record{{What: sessionsync.Put}}}
	if _, err := m.Append(nil); err == nil {
		t.Error("a record without addresses is written")
	}
}

func TestTimesThatAreTooLongAreCut(t *testing.T) {
	r := record(sessionsync.Put)
	r.Left, r.Age = 100*24*time.Hour, -time.Second
	got, err := sessionsync.Parse(marshal(t, &sessionsync.Message{Kind: sessionsync.Live, Records: []sessionsync.Record{r}}))
	if err != nil || got.Records[0].Left < 49*24*time.Hour || got.Records[0].Age != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range messages() {
		f.Add(marshal(f, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := sessionsync.Parse(b)
		if err != nil {
			return
		}
		again, err := sessionsync.Parse(marshal(t, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("got  %+v (%v)\nwant %+v", again, err, m)
		}
	})
}
