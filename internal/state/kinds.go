package state

import (
	"net/netip"
	"reflect"
	"time"
)

// Kind is one kind of Object.
type Kind struct {
	Name    string // first word, or words, of its objects' keys
	Domain  Domain
	Make    int // objects of lower rank are made first; of one rank, in the order of Desired
	Remove  int // objects of lower rank are removed first
	Example Object
	// Changed is Example with changed values that are not part of the key: Example
	// itself if there are none.
	Changed Object
}

// Ranks of making: a feature may use the device that another one wants.
const (
	makeDevice = iota
	makeUse
)

// Ranks of removal. Ports leave their bridges first: no frame may cross a bridge
// without its guards. Then programs, then routes that lead to devices, then tables,
// then devices and settings.
const (
	removeBridgeEntry = iota
	removeBridgePort
	removeProgram
	removeRoute
	removeTable
	removeDevice
	removeAddress
	removeSetting
)

// Kinds lists every kind, in an order in which the examples can be created.
// internal/kernel and internal/datapath observe and apply them; tests compare the
// lists. The examples depend on devices: the kernel's on lan and port, the
// datapath's on lan, nat64, l2tp, br0, and on wire, of number 1002, with its hidden
// end, 1001.
func Kinds() []Kind {
	return append(kernelKinds(), datapathKinds()...)
}

func kernelKinds() []Kind {
	mac, other := [6]byte{2, 1, 2, 3, 4, 5}, [6]byte{2, 1, 2, 3, 4, 6}
	route := netip.MustParsePrefix("203.0.113.0/24")
	kind := func(name string, making, remove int, example, changed Object) Kind {
		return Kind{name, Kernel, making, remove, example, changed}
	}
	same := func(name string, remove int, example Object) Kind {
		return kind(name, makeUse, remove, example, example)
	}
	return []Kind{
		kind("device", makeDevice, removeDevice, Device{"siit0", mac, 1520, "nat64.main"}, Device{"siit0", other, 9000, "nat64.main"}),
		kind("pseudowire-device", makeUse, removeDevice,
			PseudowireDevice{Name: "attic", Hidden: "attic-h", MAC: mac, MTU: 1400, Owner: "pseudowire.attic", Segments: true},
			PseudowireDevice{Name: "attic", Hidden: "attic-h", MAC: mac, MTU: 1420, Owner: "pseudowire.attic", LinkLocal: true}),
		kind("pseudowire-device", makeUse, removeDevice, exampleVXLAN(1400), exampleVXLAN(1380)),
		kind("bridge", makeUse, removeDevice, Bridge{Name: "br0", Owner: "bridge.lan", MAC: mac}, Bridge{Name: "br0", Owner: "bridge.lan", MAC: mac, Snooping: true}),
		kind("guest-device", makeUse, removeDevice,
			GuestDevice{Name: "vm1", Kind: "veth", Peer: "vm1-raw", Owner: "bridge.lan"},
			GuestDevice{Name: "vm1", Kind: "tap", Owner: "bridge.lan"}),
		kind("link", makeUse, removeSetting, Link{"lan", 1400}, Link{"lan", 1450}),
		same("no-offloads", removeSetting, NoOffloads{"lan"}),
		kind("bridge-port", makeUse, removeBridgePort, BridgePort{Device: "port", Bridge: "br0", Isolated: true}, BridgePort{Device: "port", Bridge: "br0", Suppress: true}),
		kind("bridge-vlan", makeUse, removeBridgeEntry, BridgeVLAN{Device: "port", VLAN: 7}, BridgeVLAN{Device: "port", VLAN: 7, Untagged: true}),
		same("bridge-address", removeBridgeEntry, BridgeAddress{Device: "port", MAC: mac}),
		kind("neighbour", makeUse, removeBridgeEntry,
			Neighbour{"br0", netip.MustParseAddr("192.0.2.7"), mac}, Neighbour{"br0", netip.MustParseAddr("192.0.2.7"), other}),
		same("allmulticast", removeSetting, AllMulticast{"lan"}),
		same("promiscuous", removeSetting, Promiscuous{"lan"}),
		same("vlan", removeSetting, TagsInFrames{"lan"}),
		same("address", removeAddress, Address{"lan", netip.MustParsePrefix("192.0.2.1/24")}),
		kind("route", makeUse, removeRoute, Route{Prefix: route, Device: "siit0", MTU: 1480}, Route{Prefix: route, Device: "siit0", MTU: 1400}),
		kind("route", makeUse, removeRoute,
			Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Device: "siit0", Gateway: netip.MustParseAddr("198.51.100.1"), Metric: 5},
			Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Device: "siit0", Gateway: netip.MustParseAddr("198.51.100.2"), Metric: 5}),
		kind("nftables", makeUse, removeSetting, RefusalTrace{"lan"}, RefusalTrace{"lan,port"}),
		kind("nftables-table", makeUse, removeSetting,
			NFTable{Name: "weft", Owner: "firewall", Body: "\tchain a {\n\t}\n"}, NFTable{Name: "weft", Owner: "firewall", Body: "\tchain b {\n\t}\n"}),
		kind("sysctl", makeUse, removeSetting, Sysctl{"net/ipv4/ip_forward", "1"}, Sysctl{"net/ipv4/ip_forward", "0"}),
	}
}

func exampleVXLAN(mtu int) VXLAN {
	return VXLAN{
		Name: "barn", MAC: [6]byte{2, 1, 2, 3, 4, 7}, MTU: mtu, Owner: "pseudowire.barn", VNI: 7, Port: 4789, TTL: 64, TOS: -1,
		Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"),
	}
}

func datapathKinds() []Kind {
	kind := func(name string, remove int, example, changed Object) Kind {
		return Kind{name, Datapath, makeUse, remove, example, changed}
	}
	mac := [6]byte{2, 1, 2, 3, 4, 5}
	prefix, node := netip.MustParsePrefix("64:ff9b::/96"), netip.MustParseAddr("2001:db8::7")
	translator := Translator{ID: 1, Name: "main", Device: "nat64", MAC: mac, Prefix: prefix, LowestMTU: 1280, SmallestMTU: 1500}
	translatorNow := translator
	translatorNow.MaxMSS = 1200
	allocator := Allocator{
		ID: 1, UDP: 5 * time.Minute, ICMP: time.Minute, Established: 2 * time.Hour, Transitory: 4 * time.Minute, SubscriberBits: 64,
		Pools: [PoolsMax]Pool{{netip.MustParsePrefix("198.51.100.8/29"), 1024, 65535}},
	}
	allocatorNow := allocator
	allocatorNow.Filtering = FilterAddress
	pseudowire := Pseudowire{
		Device: "wire", Hidden: 1001, Peer: 1002, Kind: PseudowireL2TPUDP, LocalPort: 1701, RemotePort: 1701, RxID: 7, TxID: 8, TTL: 64, Build: "example",
		Endpoints: Endpoints{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")},
	}
	pseudowireNow := pseudowire
	pseudowireNow.TxID = 9
	static := StaticBinding{Translator: 1, Protocol: ProtocolTCP, IPv6: netip.AddrPortFrom(node, 80), IPv4: netip.MustParseAddrPort("198.51.100.9:80")}
	return []Kind{
		kind("route-tables", removeSetting, RouteTables{1 << 21, 1 << 21}, RouteTables{1 << 22, 1 << 21}),
		kind("translator", removeTable, translator, translatorNow),
		kind("nat-allocator", removeSetting, allocator, allocatorNow),
		kind("static", removeSetting, static, static),
		kind("rule", removeTable, Rule{From: prefix, To: netip.MustParsePrefix("0.0.0.0/0"), Kind: RulePrefix, Translator: 1},
			Rule{From: prefix, To: netip.MustParsePrefix("0.0.0.0/0"), Kind: RulePrefix, Translator: 2}),
		kind("proxy", removeTable, Proxy{"lan", netip.MustParsePrefix("198.51.100.8/29")}, Proxy{"lan", netip.MustParsePrefix("198.51.100.8/29")}),
		kind("guard", removeSetting, Guard{Device: "lan", Bogons: true}, Guard{Device: "lan", Reverse: ReverseStrict}),
		kind("lns", removeSetting, LNS{ID: 1, Name: "isp", Device: "l2tp", MAC: mac}, LNS{ID: 1, Name: "isp", Device: "l2tp", MAC: mac, Routed: true, Table: 3}),
		kind("walled-garden", removeSetting, WalledGarden{1, netip.MustParsePrefix("192.0.2.80/32")}, WalledGarden{1, netip.MustParsePrefix("192.0.2.80/32")}),
		kind("bridge-guard", removeTable, BridgeGuard{Device: "lan", Bridge: "br0", Role: BridgeGuest, Member: true, MaxMACs: 4},
			BridgeGuard{Device: "lan", Bridge: "br0", Role: BridgeUplink, Member: true, Locked: true}),
		kind("station", removeTable, Station{"br0", "lan", mac}, Station{"br0", "nat64", mac}),
		kind("lower", removeSetting, Lower{Device: "lan", Upper: "br0"}, Lower{Device: "lan", Upper: "l2tp"}),
		kind("pseudowire-port", removeTable, PseudowirePort{Kind: PseudowireL2TPUDP, Local: pseudowire.Local, Port: 1701}, PseudowirePort{Kind: PseudowireL2TPUDP, Local: pseudowire.Local, Port: 1701}),
		kind("pseudowire", removeTable, pseudowire, pseudowireNow),
		kind("ingress-entry", removeTable, IngressEntry{Device: "lan", MAC: mac, Translators: 1}, IngressEntry{Device: "lan", MAC: mac, Roles: RolePseudowires}),
		kind("program", removeProgram, Attachment{"lan", HookEgress, "early_drop_egress", "example"}, Attachment{"lan", HookEgress, "early_drop_egress", "newer"}),
	}
}

// KindsByType returns the kinds by the type of their objects.
func KindsByType() map[reflect.Type]Kind {
	all := map[reflect.Type]Kind{}
	for _, k := range Kinds() {
		all[reflect.TypeOf(k.Example)] = k
	}
	return all
}
