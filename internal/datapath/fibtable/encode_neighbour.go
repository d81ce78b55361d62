package fibtable

import (
	"weft/internal/datapath"
	"weft/internal/state"
)

type neighbour = datapath.IngressTCNeighbour

func encodeNeighbour(n state.NeighbourEntry) neighbour {
	v := neighbour{Ifindex: n.IfIndex, Mtu: n.MTU}
	v.Link.Dst, v.Link.Src = n.Dst, n.Src
	for i, tag := range n.Tags {
		v.Link.Tags[i].Proto, v.Link.Tags[i].Id = datapath.Htons(tag.Proto), datapath.Htons(tag.ID)
	}
	if n.XDP {
		v.Flags = neighbourXDP
	}
	if n.PseudowireDevice {
		v.Flags |= neighbourWire
	}
	return v
}

func decodeNeighbour(v neighbour) state.NeighbourEntry {
	n := state.NeighbourEntry{IfIndex: v.Ifindex, MTU: v.Mtu, Dst: v.Link.Dst, Src: v.Link.Src, XDP: v.Flags&neighbourXDP != 0, PseudowireDevice: v.Flags&neighbourWire != 0}
	for i, tag := range v.Link.Tags {
		n.Tags[i] = state.VLANTag{Proto: datapath.Htons(tag.Proto), ID: datapath.Htons(tag.Id)}
	}
	return n
}
