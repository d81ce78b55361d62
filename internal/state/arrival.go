package state

// Arrival is what a program knew about a packet when it handed it up to the
// slow path.
type Arrival struct {
	Why    Outcome // a slow-* outcome
	MTUOut int     // bytes, of the way out on the other side; 0: not known
	MTUIn  int     // bytes, of the interface that it came by; 0: not known
	Index  int     // of that interface; 0: this host made the packet
}
