package state

import (
	"maps"
	"slices"
	"testing"
)

func TestNumbersInUseStayAndTheLowestFreeOnesFollow(t *testing.T) {
	for _, c := range []struct {
		names []string
		inUse map[string]int
		most  int
		want  map[string]int
		full  []string
	}{
		{nil, nil, 4, map[string]int{}, nil},
		{[]string{"a", "b"}, nil, 4, map[string]int{"a": 0, "b": 1}, nil},
		{[]string{"a", "b", "c"}, map[string]int{"c": 0, "gone": 1}, 4, map[string]int{"a": 1, "b": 2, "c": 0}, nil},
		{[]string{"a", "b"}, map[string]int{"a": 3, "b": 3}, 4, map[string]int{"a": 3, "b": 0}, nil}, // one number cannot be two's
		{[]string{"a", "b", "c"}, map[string]int{"c": 1}, 2, map[string]int{"a": 0, "c": 1}, []string{"b"}},
	} {
		ids, full := AssignIDs(c.names, c.inUse, c.most)
		if !maps.Equal(ids, c.want) || !slices.Equal(full, c.full) {
			t.Errorf("%v with %v in use, at most %d: %v and no room for %v, want %v and %v", c.names, c.inUse, c.most, ids, full, c.want, c.full)
		}
		if again, _ := AssignIDs(c.names, ids, c.most); !maps.Equal(again, ids) {
			t.Errorf("%v: a reload moves %v to %v", c.names, ids, again)
		}
	}
}

func TestAddressesOfDevicesAreLocalStableAndDifferent(t *testing.T) {
	seen := map[[6]byte]string{}
	for _, device := range []string{"", "nat64-main", "nat64-maim", "isp", "siit0"} {
		mac := DeviceMAC(device)
		if mac != DeviceMAC(device) || mac[0]&3 != 2 {
			t.Errorf("%s has %x, want a local unicast address that stays", device, mac)
		}
		if other, ok := seen[mac]; ok {
			t.Errorf("%q and %q have the same address", device, other)
		}
		seen[mac] = device
	}
	// upgrades must not change it: hosts remember
	if mac := DeviceMAC("nat64-main"); mac != [6]byte{0x02, 0x1c, 0xd7, 0x78, 0x73, 0xd6} {
		t.Errorf("nat64-main has %x", mac)
	}
}

func TestNamesAreCutWhereTheDatapathCutsThem(t *testing.T) {
	for name, want := range map[string]string{"": "", "main": "main", "exactly-fifteen": "exactly-fifteen", "sixteen-letters!": "sixteen-letters"} {
		if got := ShortName(name); got != want {
			t.Errorf("%q is kept as %q, want %q", name, got, want)
		}
	}
}
