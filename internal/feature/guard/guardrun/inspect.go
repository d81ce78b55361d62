package guardrun

import (
	"context"
	"fmt"
	"net/netip"

	"weft/internal/config"
	"weft/internal/feature/guard"
	"weft/internal/kernel/netfilter"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// Inspect reads the lists that [block] names, for plans that are shown: whether they
// hold the host's own networks is a question to them too.
func Inspect(ctx context.Context, _ runner.Doors, f *config.File, facts *state.Facts) {
	if len(f.Names("guard")) == 0 {
		return
	}
	block := guard.BlockOf(f)
	facts.Listed = map[string][]netip.Prefix{}
	for i, name := range block.Files {
		file, err := statefile.Open(name)
		if err != nil {
			continue // Check says so
		}
		// the lines that can be read are in force
		facts.Listed[fmt.Sprintf("block.files[%d]", i)], _ = guard.ReadFile(name, file)
		_ = file.Close()
	}
	for i, name := range block.Sets {
		if set, err := (netfilter.NFT{}).AddressSet(ctx, name); err == nil {
			facts.Listed[fmt.Sprintf("block.sets[%d]", i)] = set.Prefixes
		}
	}
}
