package state

import "reflect"

// DevicesMade returns the names of the devices that an object creates, and their
// section; none: it creates no device.
func DevicesMade(o Object) (devices []string, owner string) {
	switch v := o.(type) {
	case Device:
		return []string{v.Name}, v.Owner
	case PseudowireDevice:
		return []string{v.Name, v.Hidden}, v.Owner
	case VXLAN:
		return []string{v.Name}, v.Owner
	case Bridge:
		return []string{v.Name}, v.Owner
	case GuestDevice:
		if v.Peer == "" {
			return []string{v.Name}, v.Owner
		}
		return []string{v.Name, v.Peer}, v.Owner
	}
	return nil, ""
}

// Names reports whether an object refers to a device.
func Names(o Object, device string) bool {
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.String() == device {
			return true
		}
	}
	return false
}
