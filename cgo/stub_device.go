//go:build !linux || !cgo

package cgo

func (Context) QueryDeviceEx() (DeviceAttr, DeviceExAttr, error) {
	return DeviceAttr{}, DeviceExAttr{}, unsupported("ibv_query_device_ex")
}
func (Context) QueryPortSpeed(uint8) (uint64, error) { return 0, unsupported("ibv_query_port_speed") }
func (Context) QueryGIDOnly(uint8, int) ([16]byte, error) {
	return [16]byte{}, unsupported("ibv_query_gid")
}
func (Context) PKeyIndex(uint8, uint16) (int, error) { return 0, unsupported("ibv_get_pkey_index") }
func (Context) QueryClock() (int64, int64, error) {
	return 0, 0, unsupported("ibv_query_rt_values_ex")
}
func (Context) DupCmdFD() (uintptr, error)  { return 0, unsupported("fcntl") }
func ImportDevice(uintptr) (Context, error) { return Context{}, unsupported("ibv_import_device") }
func ForkInit() error                       { return unsupported("ibv_fork_init") }
func ForkStatus() uint32                    { return 0 }

func NodeTypeString(int) string          { return "" }
func PortStateString(uint32) string      { return "" }
func EventTypeString(uint32) string      { return "" }
func WCStatusString(uint32) string       { return "" }
func RateToMult(uint32) int              { return -1 }
func MultToRate(int) uint32              { return 0 }
func RateToMbps(uint32) int              { return -1 }
func MbpsToRate(int) uint32              { return 0 }
func FlowLabelToUDPSport(uint32) uint16  { return 0 }
func IncRKey(uint32) uint32              { return 0 }
func IsQPTSupported(uint32, uint32) bool { return false }
