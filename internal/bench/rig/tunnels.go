package rig

import (
	"errors"
	"fmt"

	"weft/internal/ethtool"
	"weft/internal/lab/netspace"
)

// AsOnAWire has a host's eth0 send packets as they are on a wire: super-packets
// in tunnels one by one, and every checksum finished. A server in user space
// could not read them otherwise.
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
