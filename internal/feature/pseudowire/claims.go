package pseudowire

import (
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// peers are the other ends of the pseudowires.
func peers(f *config.File) (list []state.Claim) {
	for _, name := range f.Names("pseudowire") {
		c := From(f, name)
		if c == nil || !c.Dst.IsValid() || c.Dst.IsLoopback() {
			continue
		}
		path := "pseudowire." + name + ".dst"
		list = append(list, state.Claim{Prefix: netip.PrefixFrom(c.Dst, c.Dst.BitLen()), For: state.ClaimPeer, Section: "pseudowire." + name, Path: path, Pos: f.Position(path)})
	}
	return list
}
