package api

import (
	"weft/internal/datapath"
	"weft/internal/state"
)

// GuardRow is one guarded interface.
type GuardRow struct {
	Device      string         `json:"device"`
	Hook        string         `json:"hook"` // xdp or tc
	ReversePath string         `json:"reverse_path"`
	Bogons      bool           `json:"bogons"`
	PerSecond   map[string]int `json:"per_second"` // by what is limited
}

// GuardRates names the rates of a guard, in their order.
func GuardRates() [state.GuardRates]string {
	return [...]string{"syn_per_source", "syn_total", "icmp_per_source", "icmp_total"}
}

// Guards lists the guarded interfaces.
func Guards(d *datapath.Datapath) ([]GuardRow, error) {
	guards, err := d.Guards()
	if err != nil {
		return nil, err
	}
	rows := []GuardRow{}
	for _, g := range guards {
		row := GuardRow{Device: g.Device, Hook: "tc", ReversePath: g.Reverse.String(), Bogons: g.Bogons, PerSecond: map[string]int{}}
		if g.XDP {
			row.Hook = "xdp"
		}
		for i, name := range GuardRates() {
			if n := g.Rates[i].PerSecond; n > 0 {
				row.PerSecond[name] = n
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}
