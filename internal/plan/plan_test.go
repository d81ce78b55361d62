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

func TestWhatTwoFeaturesWantIsThereOnce(t *testing.T) {
	forward := state.Sysctl{Name: "net/ipv4/ip_forward", Value: "1"}
	desired, _ := Desire([]state.Part{{Objects: state.Desired{forward, state.Link{Name: "lan"}}}, {Objects: state.Desired{forward}}}, state.Facts{})
	if want := (state.Desired{forward, state.Link{Name: "lan"}}); !slices.Equal(desired, want) {
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
