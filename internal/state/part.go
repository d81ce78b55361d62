package state

// Part is what one feature asks for in a round.
type Part struct {
	Feature  string
	Objects  Desired
	Needs    []Need
	Problems []Problem
}

// Need is what an interface must do for a feature. The planner makes the
// ingress entry, the attachments and the lower devices out of the needs of all
// features together.
type Need struct {
	Interface string // NAME of the section, empty if the device has none
	Device    string
	Roles     Roles
	XDP       Wish
	Path      string // the key that asks for it, as in route.interfaces[0]
	Pos       Position
}

// Wish says what a need has to do with XDP, where the hook of the interface
// leaves the choice.
type Wish uint8

const (
	Indifferent Wish = iota // nothing is gained by it
	Wanted                  // XDP where it is possible, else TC
	Required                // as Wanted, but hook = "xdp" where it is impossible is an error
)

func (w Wish) String() string { return [...]string{"indifferent", "wanted", "required"}[w] }
