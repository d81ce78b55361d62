package guest

import "weft/internal/ethtool"

// wholeFramesOnly runs on the host, in the taps' namespace: without it TCP
// hands 64 KiB super-packets to the wire, and one lost "frame" would be
// forty. UML turns segmentation offload on when it opens the tap, so this is
// for after it has.
func wholeFramesOnly(nics []NIC) error {
	for _, n := range nics {
		for _, f := range []ethtool.Flag{ethtool.SegmentTCP, ethtool.Segment} {
			if err := ethtool.Switch(n.Tap, f, false); err != nil {
				return err
			}
		}
	}
	return nil
}
