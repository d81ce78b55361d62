package lnsrun

import (
	"reflect"
	"testing"
	"time"

	"weft/internal/aaa"
	"weft/internal/subscriber"
)

// fill gives every field of a value, and of what is in it, something else than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		if m := v.Addr().MethodByName("UnmarshalText"); m.IsValid() {
			for _, text := range []string{"192.0.2.1", "192.0.2.0/24", "192.0.2.1:5"} {
				if m.Call([]reflect.Value{reflect.ValueOf([]byte(text))})[0].IsNil() {
					return
				}
			}
		}
		for _, f := range v.Fields() {
			fill(f)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	default:
		v.SetUint(1)
	}
}

// full is a value without a zero field.
func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// zeros names the fields of a value that are zero, those of structs of this module in it too.
func zeros(v reflect.Value, at string) (list []string) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return zeros(v.Elem(), at)
	}
	if v.Kind() == reflect.Struct && !v.Addr().MethodByName("UnmarshalText").IsValid() && v.Type() != reflect.TypeFor[time.Time]() {
		for f, one := range v.Fields() {
			list = append(list, zeros(one, at+"."+f.Name)...)
		}
		return list
	}
	if v.IsZero() {
		return []string{at}
	}
	return nil
}

// TestNoRADIUSAttributeIsLost: what RADIUS says reaches the subscribers, and what they
// say reaches RADIUS, field by field.
func TestNoRADIUSAttributeIsLost(t *testing.T) {
	request := accessRequest(full[subscriber.AuthRequest]())
	reply := replyOf(full[aaa.Reply]())
	account := full[subscriber.Account]()
	account.Kind, account.Reason = subscriber.AccountStop, subscriber.ReasonIdle
	accounting := accountingRequest(&account)
	match := matchOf(full[aaa.Match]())
	row := radiusServer("isp", full[aaa.ServerStats]())
	sum := traffic(full[subscriber.Traffic]())
	for _, c := range []struct {
		name string
		v    any
		may  string // a field that RADIUS does not know
	}{
		{"AuthRequest", &request, ""},
		{"AuthReply", &reply, ".Profile.NoIPv4 .Profile.SwitchTo.Hide"},
		{"Accounting", accounting, ""},
		{"Match", &match, ".Clients"},
		{"RADIUSServer", &row, ""},
		{"Traffic", &sum, ""},
	} {
		got := ""
		for i, z := range zeros(reflect.ValueOf(c.v), "") {
			if i > 0 {
				got += " "
			}
			got += z
		}
		if got != c.may {
			t.Errorf("%s lacks %q, want %q", c.name, got, c.may)
		}
	}
}
