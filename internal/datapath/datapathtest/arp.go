package datapathtest

import (
	"bytes"
)

const (
	Asker6, Asker4 = "2001:db8:1::99", "198.51.100.99"
	Ours6, Ours4   = "2001:db8:1:0:64::7", "198.51.100.2"
)

// askerMAC is the source of the frames that bench.frame makes.
var AskerMAC = []byte{0x02, 0, 0, 0, 0x77, 0x77}

func Everybody() []byte { return bytes.Repeat([]byte{0xff}, 6) }

// arp builds an ARP packet of RFC 826.
func Arp(operation byte, senderMAC []byte, sender string, targetMAC []byte, target string) []byte {
	b := append(Bin("0001 0800 06 04 00"), operation)
	b = append(append(b, senderMAC...), Addr(sender).AsSlice()...)
	return append(append(b, targetMAC...), Addr(target).AsSlice()...)
}

func ArpFrame(to, from, packet []byte) []byte {
	return append(append(append(bytes.Clone(to), from...), 0x08, 0x06), packet...)
}
