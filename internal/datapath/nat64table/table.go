// Package nat64table is the typed tables of translators: rules, bindings and sessions
// of stateful translation (RFC 6146), their log, and their exchange with other routers.
package nat64table

import "weft/internal/datapath"

// Table is the tables of translators in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
