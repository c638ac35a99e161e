package ibv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDiagnose: what is missing is told for each device, from a copy of what the
// kernel and udev show.
func TestDiagnose(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, d := range []string{"mlx5_0", "rxe0", "siw0"} {
		write("class/infiniband/"+d+"/node_type", "")
	}
	write("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n")
	write("class/infiniband_verbs/uverbs1/ibdev", "rxe0\n")
	write("dev/uverbs1", "")
	oldSys, oldVerbs, oldDev := sysfs, sysfsVerbs, devDir
	sysfs, sysfsVerbs, devDir = filepath.Join(dir, "class/infiniband"), filepath.Join(dir, "class/infiniband_verbs"), filepath.Join(dir, "dev")
	defer func() { sysfs, sysfsVerbs, devDir = oldSys, oldVerbs, oldDev }()

	got, err := Diagnose()
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, DeviceReport{Name: "mlx5_0", CharDev: dir + "/dev/uverbs0", Err: got[0].Err}, got[0])
	require.ErrorIs(t, got[0].Err, ErrDeviceNotAccessible)
	require.ErrorIs(t, got[0].Err, os.ErrNotExist)
	require.ErrorContains(t, got[0].Err, "character device missing; in a container: --device="+dir+"/dev/uverbs0")
	require.ErrorIs(t, got[1].Err, ErrNoProvider)
	require.ErrorContains(t, got[1].Err, "ibverbs-providers")
	require.Empty(t, got[2].CharDev)
	require.ErrorContains(t, got[2].Err, "modprobe ib_uverbs")
	require.Contains(t, got[2].String(), "siw0: ")

	require.NoError(t, diagnose("rxe0", "uverbs1", true))
	require.Equal(t, "rxe0: usable", DeviceReport{Name: "rxe0"}.String())
}
