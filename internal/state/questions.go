package state

// Questions are the queries to the host that plans need, beside its links.
type Questions struct {
	Sysctls  []string    // names below /proc/sys
	Accounts []string    // "user NAME", "group NAME": are they known here?
	Pairs    []Endpoints // how do packets get from one end to the other?
	VLANs    bool        // do the kernel's bridges tell VLANs apart?
}
