package daemon_test

import (
	"testing"

	"weft/internal/lab/netspace/spacetest"
)

func TestMain(m *testing.M) { spacetest.Main(m, 3) }
