package offload

import (
	"testing"

	"weft/internal/state"
)

const (
	conduitIndex = 20
	portIndex    = 21
)

// behindSwitch has wan be a bridge, one of whose ports is port 4 of a switch.
func behindSwitch() (*Service, *fake, state.PassedFlow) {
	s, f := newTest()
	s.Link(state.KernelLink{Index: wanIndex, MAC: macs[wanIndex], MTU: 1500, Up: true, Ethernet: true, Kind: "bridge"})
	s.Link(state.KernelLink{Index: conduitIndex, MAC: [6]byte{2, 9}, MTU: 1504, Up: true, Ethernet: true, XDPTarget: true})
	s.Link(state.KernelLink{Index: portIndex, MAC: macs[wanIndex], MTU: 1500, Up: true, Ethernet: true, Kind: "dsa", Lower: conduitIndex, Port: 5, Master: wanIndex})
	c := masqueraded(1000)
	f.track(c)
	p := f.passed(c, false)
	p.Device, p.Link.Tags = conduitIndex, state.VLANTags{{Proto: state.SwitchTag, ID: 4}}
	return s, f, p
}

func TestAFlowLeavesByAPortOfASwitch(t *testing.T) {
	s, f, p := behindSwitch()
	offer(t, s, p)
	if len(f.flows) != 1 {
		t.Fatalf("it is not offloaded: %v", s.Status(0).Left)
	}
	s.BridgeEntry(state.BridgeEntry{Bridge: wanIndex, Port: portIndex, MAC: peers[wanIndex]})
	if s.Status(0).Hops != 1 {
		t.Error("it is taken back though the station is where it was")
	}
	s.BridgeEntry(state.BridgeEntry{Bridge: wanIndex, Port: lanIndex, MAC: peers[wanIndex]})
	if s.Status(0).Hops != 0 {
		t.Error("the station is behind another port, and the way there is kept")
	}
}

func TestAPortThatIsNotWhereTheRouteLeadsIsRefused(t *testing.T) {
	s, f, p := behindSwitch()
	p.Link.Tags[0].ID = 3
	offer(t, s, p)
	if len(f.flows) != 0 {
		t.Error("offloaded by a port that there is not")
	}
	s, f, p = behindSwitch()
	s.Link(state.KernelLink{Index: portIndex, MAC: macs[wanIndex], MTU: 1500, Up: true, Ethernet: true, Kind: "dsa", Lower: conduitIndex, Port: 5})
	p.Generation = f.generation
	offer(t, s, p)
	if len(f.flows) != 0 || s.Status(0).Left[WhyOtherWay] != 1 {
		t.Errorf("offloaded by a port that is in no bridge: %v", s.Status(0).Left)
	}
}

func TestAPortThatGoesDownTakesItsFlowsBack(t *testing.T) {
	s, f, p := behindSwitch()
	offer(t, s, p)
	s.Link(state.KernelLink{Index: portIndex, MAC: macs[wanIndex], MTU: 1500, Ethernet: true, Kind: "dsa", Lower: conduitIndex, Port: 5, Master: wanIndex})
	p.Generation = f.generation
	if s.Status(0).Hops != 0 {
		t.Error("its way is kept")
	}
	offer(t, s, p)
	if s.Status(0).Left[WhyNoLink] != 1 {
		t.Errorf("left: %v", s.Status(0).Left)
	}
}
