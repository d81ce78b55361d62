package daemon_test

import (
	"testing"

	"weft/internal/lab/netspace/spacetest"
)

func TestMain(m *testing.M) {
	if !faulty() {
		spacetest.Main(m, 3)
	}
}
