package plan

import (
	"slices"
	"testing"

	"weft/internal/state"
)

func lines(desired state.Desired) []string {
	var list []string
	for _, o := range desired {
		list = append(list, o.String())
	}
	return list
}

func TestPartsAreJoinedInTheirOrderAndDevicesComeFirst(t *testing.T) {
	desired, _ := Desire([]state.Part{
		{Feature: "a", Objects: state.Desired{state.Sysctl{Name: "one", Value: "1"}, state.Link{Name: "lan"}}},
		{Feature: "b", Objects: state.Desired{state.Device{Name: "nat64-main", MTU: 1500, Owner: "nat64.main"}, state.Link{Name: "wan"}}},
	}, state.Facts{})
	want := []string{"device nat64-main kind tap mtu 1500 for nat64.main", "sysctl one = 1", "link lan up", "link wan up"}
	if got := lines(desired); !slices.Equal(got, want) {
		t.Errorf("the plan is\n%q, want\n%q", got, want)
	}
}

func TestWhatTwoFeaturesWantIsThereOnceAndTheirPortsAreJoined(t *testing.T) {
	desired, _ := Desire([]state.Part{
		{Objects: state.Desired{state.Port{Device: "lan", Translators: 2}, state.Attachment{Device: "lan", Hook: state.HookIngress, Program: "ingress_tc"}}},
		{Objects: state.Desired{state.Port{Device: "lan", Roles: state.RoleRouted, Table: 3}, state.Attachment{Device: "lan", Hook: state.HookIngress, Program: "ingress_tc"}}},
	}, state.Facts{})
	want := state.Desired{state.Port{Device: "lan", Translators: 2, Roles: state.RoleRouted, Table: 3}, state.Attachment{Device: "lan", Hook: state.HookIngress, Program: "ingress_tc"}}
	if !slices.Equal(desired, want) {
		t.Errorf("the plan is\n%q, want\n%q", desired, want)
	}
}

func TestXDPGetsFramesWithTheirVLANTags(t *testing.T) {
	desired, _ := Desire([]state.Part{{Objects: state.Desired{
		state.Attachment{Device: "lan", Hook: state.HookIngress, Program: "ingress_tc"},
		state.Attachment{Device: "lan", Hook: state.HookXDP, Program: "ingress_xdp"},
		state.Attachment{Device: "wan", Hook: state.HookIngress, Program: "ingress_tc"},
	}}}, state.Facts{})
	want := []string{"program ingress_tc on lan tc-ingress build ", "vlan tags in frames of lan", "program ingress_xdp on lan xdp build ", "program ingress_tc on wan tc-ingress build "}
	if got := lines(desired); !slices.Equal(got, want) {
		t.Errorf("the plan is\n%q, want\n%q", got, want)
	}
}

// XDP would see frames before the guards of a bridge's port do.
func TestPortsOfBridgesHaveNoXDP(t *testing.T) {
	desired, _ := Desire([]state.Part{
		{Objects: state.Desired{state.BridgeGuard{Device: "vm1", Bridge: "br0"}}},
		{Objects: state.Desired{
			state.Port{Device: "vm1", Roles: state.RoleXDPOut}, state.Port{Device: "lan", Roles: state.RoleXDPOut},
			state.Attachment{Device: "vm1", Hook: state.HookXDP, Program: "ingress_xdp"}, state.Attachment{Device: "vm1", Hook: state.HookIngress, Program: "ingress_tc"},
		}},
	}, state.Facts{})
	want := state.Desired{
		state.BridgeGuard{Device: "vm1", Bridge: "br0"}, state.Port{Device: "vm1"}, state.Port{Device: "lan", Roles: state.RoleXDPOut},
		state.Attachment{Device: "vm1", Hook: state.HookIngress, Program: "ingress_tc"},
	}
	if !slices.Equal(desired, want) {
		t.Errorf("the plan is\n%q, want\n%q", desired, want)
	}
}

func TestProblemsOfAllPartsAreInTheOrderOfTheFile(t *testing.T) {
	at := func(line int, what string) state.Problem {
		return state.Problem{Pos: state.Position{File: "weft.toml", Line: line}, What: what}
	}
	_, problems := Desire([]state.Part{{Problems: []state.Problem{at(7, "later")}}, {Problems: []state.Problem{at(2, "b"), at(2, "a")}}}, state.Facts{})
	if want := []state.Problem{at(2, "a"), at(2, "b"), at(7, "later")}; !slices.Equal(problems, want) {
		t.Errorf("the problems are %v, want %v", problems, want)
	}
}
