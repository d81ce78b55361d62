package packaging_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// container enters a copy of this machine in namespaces of its own: its files below an
// overlay, and no systemd. What it changes goes with it.
const container = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
cp "$2" "$1/upper/weft.deb"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t bpf bpf sys/fs/bpf
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
export DEBIAN_FRONTEND=noninteractive
exec chroot . /bin/sh -c "$3"
`

// inContainer installs a package in a container without systemd and runs a script
// there.
func inContainer(t *testing.T, deb, script string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	for _, tool := range []string{"unshare", "dpkg", "deb-systemd-helper", "flock"} {
		needTool(t, tool)
	}
	// no link-local addresses: they are tentative for a while, and would differ from before
	begin := "set -e\nip link set lo up\nip link add lan type veth peer name far\nip link set lan addrgenmode none\nip link set far addrgenmode none\nip link set far up\nip link set lan up\ndpkg -i --force-depends /weft.deb > /dev/null\n"
	c := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", container, "sh", t.TempDir(), deb, begin+script)
	out, err := c.CombinedOutput()
	return string(out), err
}

const runsInContainer = `
state() {
	find /etc /run /var/lib/weft /var/log/weft /usr/bin /sys/fs/bpf -name '*weft*' 2> /dev/null || true
	ip -o address | sed 's/ valid_lft.*//'
	ip -6 route show table all
	ip route show table all
	ip rule
	cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding
}
dpkg --purge --force-depends weft > /dev/null
state > /tmp/before
dpkg -i --force-depends /weft.deb > /dev/null
cat > /etc/weft/weft.toml <<END
[interface.lan]
device = "lan"
addresses = ["192.0.2.1/24", "2001:db8:1::1/64"]
[nat64.main]
mode = "stateless"
interfaces = ["lan"]
prefix = "64:ff9b:1::/96"
mappings = [{ ipv6 = "2001:db8:1::2/128", ipv4 = "198.51.100.2/32" }]
END
weft run > /tmp/log 2>&1 &
for n in $(seq 600); do weft show status > /dev/null 2>&1 && break; sleep 0.1; done
for n in $(seq 600); do ip address show lan | grep -q 192.0.2.1/24 && break; sleep 0.1; done
ip address show lan | grep -q 192.0.2.1/24 || { cat /tmp/log; exit 1; }
`

// Without systemd no unit stops the daemon, and no reboot follows that would remove
// what is left.
func TestAPurgeInAContainerStopsTheDaemonAndUnloadsIt(t *testing.T) {
	out, err := inContainer(t, pack(t, "0.1.0"), runsInContainer+`
dpkg --purge --force-depends weft
for n in $(seq 600); do test -e /proc/$!/exe || break; sleep 0.1; done
test ! -e /proc/$!/exe || { echo the daemon is not stopped; exit 1; }
state | diff /tmp/before - && echo as before
`)
	if err != nil || !strings.HasSuffix(out, "as before\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A daemon that has been killed has left its state in the kernel.
func TestUnloadAndPurgeInAContainerAfterAKill(t *testing.T) {
	out, err := inContainer(t, pack(t, "0.1.0"), runsInContainer+`
kill -9 $!
wait || true
dpkg --remove --force-depends weft
test ! -e /sys/fs/bpf/weft && test -e /etc/weft/weft.toml && echo unloaded
dpkg --purge --force-depends weft
state | diff /tmp/before - && echo as before
`)
	if err != nil || !strings.Contains(out, "unloaded\n") || !strings.HasSuffix(out, "as before\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// An upgrade neither needs systemd nor stops the daemon.
func TestAnUpgradeInAContainerLeavesTheDaemonAlone(t *testing.T) {
	deb := pack(t, "0.1.0")
	out, err := inContainer(t, deb, runsInContainer+`
dpkg -i --force-depends --force-confold /weft.deb
kill -0 $! && weft show status && ip address show lan | grep -q 192.0.2.1/24 && echo it runs
`)
	if err != nil || !strings.HasSuffix(out, "it runs\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
