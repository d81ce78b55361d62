package fibtable_test

import (
	"testing"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/datapath/fibtable"
	"weft/internal/datapath/ingresstable"
	"weft/internal/datapath/nat64table"
)

// What the tests here stand on: the bench of datapathtest with the tables that they need.

func parts() []datapath.Part {
	return []datapath.Part{ingresstable.Part(), nat64table.Part(), fibtable.Part()}
}

type router struct{ *datapathtest.Router }

func newRouter(t *testing.T, parts ...datapath.Part) *router {
	t.Helper()
	return &router{datapathtest.NewRouter(t, parts...)}
}
