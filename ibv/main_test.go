package ibv_test

import (
	"testing"

	"github.com/railbind/railbind/ibv/ibvtest"
)

func TestMain(m *testing.M) { ibvtest.Main(m) }
