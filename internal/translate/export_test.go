package translate

// Mirror is a state in which every port stands for itself.
type Mirror = mirror

// Sound compares what a reassembler holds with what it counts.
func (r *Reassembler) Sound() error { return r.sound() }
