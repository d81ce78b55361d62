#!/bin/bash
# Install the Debian packages that a task needs, and say what each is for.
# Only what is missing is installed, by apt-get as this machine has it set up.
#
#   tools/setup.sh demo       nothing: make demo needs Go and root, no more
#   tools/setup.sh test       what the tests need
#   tools/setup.sh bench      the peers that weft is measured beside
#   tools/setup.sh prove      a C compiler, for the race detector
#   tools/setup.sh jool       Jool, built for the guests of weft lab run jool
#   tools/setup.sh generate   the pinned compiler of the eBPF objects
#   tools/setup.sh --list     print all of it, install nothing
set -euo pipefail

# task  package  what it is for; one package may serve several tasks
needs() {
	cat <<-'LIST'
		test      make                    the Makefile's own program
		test      git                     the commit that a build and a measurement tell
		test      iproute2                ip, tc, ss: an independent look at what weft has made
		test      ethtool                 sets what devices are to do for the stack, as users do
		test      nftables                nft: the firewall rules that translated packets must pass
		test      conntrack               connections that tests delete under offload's feet
		test      bpftool                 an independent look at programs and maps
		test      tayga                   the translator that weft is compared with
		test      iperf3                  TCP flows of the benches
		test      procps                  pgrep: tests look for processes left behind
		test      util-linux              taskset: which CPU hosts of benches have
		test      bird2                   the routing daemon of the transit lab
		test      keepalived              moves addresses between the routers of the failover lab
		test      openssl                 makes keys for the failover lab
		test      iputils-ping            ping, as an independent look at what crosses
		test      busybox-static          the tools inside of a QEMU guest
		test      kmod                    modprobe, for modules inside of guests
		test      qemu-system-x86         guests with a kernel of their own
		test      user-mode-linux         guests that boot in a second
		test      linux-image-amd64       Debian's own kernel, for guests
		test      linux-image-6.12-amd64  the kernel for guests that run weft themselves
		test      xz-utils                unpacks kernels for guests
		test      rdnssd                  a stock client of router advertisements, in labs
		test      isc-dhcp-client         a stock client of DHCPv4 and DHCPv6, in labs
		test      udhcpc                  a stock client of DHCPv4
		test      dnsmasq-base            a stock server of DHCPv4
		test      bind9-dnsutils          dig, a stock client of name servers, in labs
		test      wide-dhcpv6-client      dhcp6c, which asks for a prefix over PPP, in labs
		test      radvd                   tells the hosts behind it, in labs
		test      xl2tpd                  a stock L2TP client, in labs
		test      ppp                     pppd, the stock end of a PPP link, in labs
		test      l2tpns                  a stock L2TP server, in labs, and what the bench of subscribers measures beside
		test      pppoe                   pppoe-server, the provider of the offload-pppoe lab
		test      freeradius              the RADIUS server of the lns-radius lab
		test      freeradius-utils        radclient, which changes and ends sessions
		test      systemd                 systemd-analyze: how hardened the unit is; and PID 1 of guests
		test      udev                    the devices of guests with systemd
		test      e2fsprogs               mke2fs, for the disks of guests with the host's root
		test      sqlite3                 that server's database
		test      curl                    a stock client of the web, in labs
		test      python3                 a small web server and client, in labs
		test      zstd                    unpacks kernels for guests
		test      clang-19                the pinned compiler: are the committed eBPF objects what it makes?
		test      llvm-19                 llvm-strip-19, which takes debugging data out of them
		test      lld-19                  links the wrapper of User-Mode Linux guests: is the committed one what it makes?
		test      chromium                a browser without a screen: the page of weft sim watch
		test      linux-headers-amd64     what Jool's module is built with
		test      jool-dkms               Jool, whose behaviour a lab compares with weft's
		test      jool-tools              jool_siit, which sets it up
		bench     chromium                the page of weft sim watch, whose pictures are measured
		bench     iproute2                ip, tc, ss
		bench     nftables                the same FORWARD policy for every subject
		bench     iperf3                  the TCP flows
		bench     tayga                   the translator that weft is measured beside
		bench     l2tpns                  the L2TP server that weft is measured beside
		bench     user-mode-linux         guests on pseudowires and bridges
		bench     qemu-system-x86         guests likewise
		bench     linux-image-6.12-amd64  the kernel of QEMU's
		bench     busybox-static          the tools inside of them
		bench     util-linux              taskset: which CPU hosts have
		bench     xz-utils                unpacks their kernel
		prove     gcc                     the race detector is C
		prove     libc6-dev               and wants the library of C
		jool      linux-image-amd64       the kernel of the guest that runs Jool
		jool      linux-headers-amd64     what its module is built with
		jool      jool-dkms               Jool's module, built when it is installed
		jool      jool-tools              jool_siit, which sets it up
		jool      qemu-system-x86         the guest
		jool      busybox-static          the tools inside of it
		jool      xz-utils                unpacks kernels for guests
		jool      zstd                    unpacks kernels for guests
		generate  clang-19                the pinned compiler of the eBPF objects
		generate  llvm-19                 llvm-strip-19, which takes debugging data out of them
		generate  lld-19                  links the wrapper of User-Mode Linux guests
	LIST
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]
}

task=${1:-}
case $task in
demo) echo "make demo needs Go and root; nothing to install"; exit 0 ;;
test | bench | jool | prove | generate) ;;
--list) needs; exit 0 ;;
*) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

# A machine without systemd may have no BPF file system, in which programs and maps are
# pinned; a container may not be allowed to mount one, and then the tests say so.
if [ "$(id -u)" = 0 ] && [ "$task" != generate ] && [ "$(stat -f -c %T /sys/fs/bpf 2>/dev/null)" != bpf_fs ]; then
	mount -t bpf -o mode=0700 bpf /sys/fs/bpf || echo "tools/setup.sh: cannot mount the BPF file system at /sys/fs/bpf" >&2
fi

missing=()
while read -r of package what; do
	if [ "$of" = "$task" ] && ! installed "$package"; then
		[ ${#missing[@]} -gt 0 ] || echo "to install for make $task:"
		printf '  %-24s %s\n' "$package" "$what"
		missing+=("$package")
	fi
done < <(needs)
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi

if ! command -v apt-get >/dev/null; then
	echo "tools/setup.sh: this is no Debian (there is no apt-get): install the packages above, or what they are called here, yourself" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "tools/setup.sh: installing packages needs root: sudo tools/setup.sh $task" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive

# fetch runs apt-get: it waits for another that runs, and asks a mirror again
# that does not answer. Never is a question left open (needrestart, dpkg).
fetch() {
	local verb=$1
	shift
	NEEDRESTART_MODE=l apt-get "$verb" -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Acquire::http::Timeout=60 \
		-o Dpkg::Options::=--force-confold -o APT::Get::Assume-Yes=true "$@" </dev/null
}

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# try runs a command up to four times, with longer and longer pauses: mirrors
# are away for a moment, or have other files than their lists say. What the last
# one said is shown.
try() {
	local doing=$1 n
	shift
	for n in 1 2 3 4; do
		if "$@" >"$said" 2>&1; then
			return 0
		fi
		[ $n = 4 ] || { echo "  $doing: attempt $n failed ($(grep '^E:' "$said" | head -n 1)), trying again in $((n * n * 5)) s" >&2; sleep $((n * n * 5)); }
	done
	echo "tools/setup.sh: $doing failed four times; the last time apt-get said:" >&2
	tail -n 30 "$said" >&2
	return 1
}

lists() { fetch update; }
install() { fetch install --no-install-recommends "${missing[@]}"; }

# The lists of packages may be missing or old, and an installation before this
# one may have been cut short. What counts is whether the packages come.
repeat() {
	dpkg --configure -a </dev/null || true
	lists || true
	install
}

# The pinned compiler is only for a comparison: without it the tests say that
# they left that out. Debian 12 and 13 have it.
known() { apt-cache show "$1" >/dev/null 2>&1; }
if [ "$task" = test ] && ! known clang-19; then
	try "fetching the lists of packages" lists
	if ! known clang-19; then
		echo "  (clang-19 is not to be had here; the eBPF objects will not be rebuilt and compared)"
		kept=()
		for package in "${missing[@]}"; do
			case $package in clang-19 | llvm-19 | lld-19) ;; *) kept+=("$package") ;; esac
		done
		missing=("${kept[@]}")
		[ ${#missing[@]} -gt 0 ] || exit 0
	fi
fi
if ! install >"$said" 2>&1; then
	try "installing packages" repeat
fi
echo "installed ${#missing[@]} packages"
