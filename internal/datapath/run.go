package datapath

// skBuff is struct __sk_buff of linux/bpf.h as far as a run may set it.
type SKBuff struct {
	_    [2]uint32
	Mark uint32
	_    [7]uint32
	// index of the device that the packet is as of; 0: of loopback
	Ifindex uint32
	_       [37]uint32
}
