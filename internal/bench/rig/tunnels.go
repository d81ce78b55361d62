package rig

import (
	"errors"
	"fmt"

	"weft/internal/ethtool"
	"weft/internal/lab/netspace"
)

// AsOnAWire makes a host's eth0 send packets as on a cable: GSO packets in tunnels
// segmented, and every checksum complete. A server in user space could not read them
// otherwise.
func AsOnAWire(host *netspace.Space) error {
	return host.Do(func() error {
		err := errors.Join(
			ethtool.SwitchOff("eth0", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"),
			ethtool.Switch("eth0", ethtool.TransmitChecksum, false))
		if err != nil {
			return fmt.Errorf("set offload of eth0 in %s: %w", host.Name, err)
		}
		return nil
	})
}
