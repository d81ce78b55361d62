package state

// Part is what one feature requires in a round.
type Part struct {
	Feature  string
	Objects  Desired
	Needs    []Need
	Claims   []Claim
	Lists    []ClaimList
	Problems []Problem
}

// Need is what an interface must do for a feature. The planner makes the ingress
// entries, the sub-interface entries and the attachments from the needs of all
// features together.
type Need struct {
	Interface   string // NAME of the section, empty if the device has none
	Device      string
	MAC         [6]byte // of a device that weft makes, and that may not be there yet
	Hook        HookChoice
	Roles       Roles
	Translators uint64 // bit per translator that serves it
	Table       int    // of weft's own routes
	Taken       Taken
	Together    bool   // one hook must see all its packets: XDP on all devices where they are taken, or on none
	Egress      string // program that sees what leaves there, may be empty
	XDP         Wish
	Unframed    Unframed
	Path        string // the key that asks for it, as in route.interfaces[0]
	Pos         Position
}

// Taken is the place where the packets of an interface are processed.
type Taken uint8

const (
	TakenHere    Taken = iota // on the device itself
	TakenBelow                // on the lowest devices on which they can be seen
	TakenNowhere              // the interface is only sent to
)

// Wish is a need's requirement for XDP. The hook of the interface decides whether
// XDP is permitted.
type Wish uint8

const (
	Indifferent Wish = iota // XDP gains nothing
	Wanted                  // XDP where it is possible, else TC
	Required                // as Wanted, but hook = "xdp" where XDP is impossible is an error
)

// Unframed is the handling of a need on a device without Ethernet frames (tun, PPP,
// WireGuard, XFRM), on which the programs process no packets.
type Unframed uint8

const (
	UnframedRefused Unframed = iota // it cannot be met, which is an error
	UnframedLeft                    // what arrives there is left to the kernel, which is a warning
	UnframedStack                   // the stack brings what is for the feature by its own routes
)

// HookChoice is the key hook of an interface.
type HookChoice string

const (
	ChooseAuto HookChoice = "auto"
	ChooseXDP  HookChoice = "xdp"
	ChooseTC   HookChoice = "tc"
)
