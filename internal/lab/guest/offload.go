package guest

import "weft/internal/ethtool"

// wholeFramesOnly disables GSO on the taps, in their namespace on the host:
// otherwise TCP sends GSO packets of 64 KiB, and one lost "frame" would be forty.
// UML enables segmentation offload when it opens the tap, so this runs after that.
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
