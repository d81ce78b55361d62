package manager

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// host makes the files of one; a value that begins with -> is a link.
func host(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(text) > 2 && text[:2] == "->" {
			err = os.Symlink(text[2:], path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Host(root)
}

func TestManagersAreKnownByTheirState(t *testing.T) {
	devices := map[int]string{1: "lo", 2: "eth0", 3: "eth1", 4: "wlan0", 5: "eth2"}
	files := map[string]string{
		"proc/1/ns/net": "->net:[1]", "proc/self/ns/net": "->net:[1]",
		"run/systemd/netif/links/2":    "# state\nADMIN_STATE=configured\nOPER_STATE=routable\n",
		"run/systemd/netif/links/3":    "ADMIN_STATE=unmanaged\n",
		"run/NetworkManager/devices/3": "[device]\nmanaged=false\n",
		"run/NetworkManager/devices/4": "[device]\nmanaged=true\nconnection-uuid=x\n",
		"run/network/ifstate":          "lo=lo\neth2=home\n",
		"proc/70/ns/net":               "->net:[1]", "proc/70/comm": "dhclient\n", "proc/70/cmdline": "dhclient\x00-4\x00-v\x00eth1\x00",
		"proc/71/ns/net": "->net:[2]", "proc/71/comm": "dhcpcd\n", "proc/71/cmdline": "dhcpcd\x00eth2\x00",
		"proc/72/ns/net": "->net:[1]", "proc/72/comm": "ping\n", "proc/72/cmdline": "ping\x00-I\x00lo\x00",
	}
	want := map[string]string{"eth0": Networkd, "eth1": "dhclient", "wlan0": NetworkManager, "eth2": Ifupdown}
	if got := host(t, files).Of(devices); !maps.Equal(got, want) {
		t.Errorf("managers are %v, want %v", got, want)
	}
	// in a network namespace of its own, /run is about other devices
	files["proc/self/ns/net"] = "->net:[2]"
	if got, want := host(t, files).Of(devices), map[string]string{"eth2": "dhcpcd"}; !maps.Equal(got, want) {
		t.Errorf("in another namespace managers are %v, want %v", got, want)
	}
	if got := host(t, nil).Of(devices); len(got) > 0 {
		t.Errorf("without any, managers are %v", got)
	}
}
