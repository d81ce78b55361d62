package pseudowiretable

import (
	"encoding/binary"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// A path MTU is learnt from an ICMP error that quotes what a pseudowire has sent: ports, and
// session or key. Forged errors, which know the addresses alone, change nothing and are
// counted.
func TestThePathMTUIsLearntOnlyFromErrorsAboutOwnPackets(t *testing.T) {
	endpoints := plainPseudowire().Endpoints
	udp, raw := plainPseudowire(), plainPseudowire()
	raw.Kind, raw.LocalPort, raw.RemotePort, raw.RxID, raw.TxID = state.PseudowireL2TPIP, 0, 0, 30, 40
	gre := state.Pseudowire{Kind: state.PseudowireGREKey, Endpoints: endpoints, RxID: 7, TxID: 8}
	quote := func(protocol uint8, head string) datapathtest.Packet {
		inner := datapathtest.Packet{From: pseudowireNear, To: pseudowireFar, Protocol: protocol, Flags: datapathtest.Df, Payload: append(datapathtest.Bin(head), make([]byte, 1000)...)}
		icmp := append(datapathtest.Bin("0304 0000 0000 0578"), inner.Bytes()[:128]...) // MTU 1400
		sum := uint32(0)
		for i := 0; i < len(icmp); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(icmp[i:]))
		}
		binary.BigEndian.PutUint16(icmp[2:], ^uint16(sum>>16+sum&0xffff))
		return datapathtest.Packet{From: "192.0.2.77", To: pseudowireNear, Protocol: 1, Payload: icmp}
	}
	for _, build := range datapathtest.Builds {
		t.Run(build, func(t *testing.T) {
			for _, test := range []struct {
				name   string
				packet datapathtest.Packet
				learnt bool
			}{
				{"L2TP over UDP", quote(protocolUDP, "06a5 06a6 00000000 00030000 00000014"), true},
				{"L2TP over UDP, the session that the other end uses", quote(protocolUDP, "06a5 06a6 00000000 00030000 0000000a"), false},
				{"L2TP over UDP, another session", quote(protocolUDP, "06a5 06a6 00000000 00030000 00000015"), false},
				{"L2TP over UDP, another port here", quote(protocolUDP, "06a4 06a6 00000000 00030000 00000014"), false},
				{"L2TP over UDP, another port there", quote(protocolUDP, "06a5 06a7 00000000 00030000 00000014"), false},
				{"other UDP", quote(protocolUDP, "06a5 06a6 00000000 00000000 00000000"), false},
				{"L2TP over IP", quote(protocolL2TP, "00000028"), true},
				{"L2TP over IP, another session", quote(protocolL2TP, "00000014"), false},
				{"GRE with the key", quote(protocolGRE, "2000 6558 00000008"), true},
				{"GRE with another key", quote(protocolGRE, "2000 6558 00000007"), false},
				{"GRE without a key", quote(protocolGRE, "0000 6558"), false},
			} {
				b := newPseudowires(t, udp, raw, gre)
				if err := b.Table("pseudowire_paths").Put(encodeEndpoints(endpoints), pseudowirePath{Ifindex: 1, Mtu: 1500}); err != nil {
					t.Fatal(err)
				}
				res := b.Run(build, "lan", b.Frame("lan", test.packet.Bytes()))[0]
				paths, err := Of(b.Datapath).Paths()
				if err != nil {
					t.Fatal(err)
				}
				want, counted := 0, uint64(1)
				if test.learnt {
					want, counted = 1400, 0
				}
				if got := paths[endpoints].PathMTU; got != want {
					t.Errorf("%s: the path MTU is %d, want %d", test.name, got, want)
				}
				if n := res.Counted[build+" pass-pseudowire-icmp"]; uint64(n) != counted {
					t.Errorf("%s: counted %d times as foreign, want %d: %v", test.name, n, counted, res.Counted)
				}
			}
		})
	}
}
