package state

import "reflect"

// DevicesMade gives the names of the devices that an object makes; none: it
// makes no device.
func DevicesMade(o Object) []string {
	switch v := o.(type) {
	case Device:
		return []string{v.Name}
	case Wire:
		return []string{v.Name, v.Hidden}
	case VXLAN:
		return []string{v.Name}
	case Bridge:
		return []string{v.Name}
	case GuestDevice:
		if v.Peer == "" {
			return []string{v.Name}
		}
		return []string{v.Name, v.Peer}
	}
	return nil
}

// Names says whether an object names a device.
func Names(o Object, device string) bool {
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.String() == device {
			return true
		}
	}
	return false
}
