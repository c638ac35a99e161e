//go:build !linux || !cgo

package cgo

// GetAddrInfo is not supported in this build.
func GetAddrInfo(string, string, AddrInfo) ([]AddrInfo, error) {
	return nil, unsupported("rdma_getaddrinfo")
}

func (ID) QPAttr(uint32) (QPAttr, uint32, error) {
	return QPAttr{}, 0, unsupported("rdma_init_qp_attr")
}
func (ID) Notify(uint32) error              { return unsupported("rdma_notify") }
func (ID) Establish() error                 { return unsupported("rdma_establish") }
func (ID) Migrate(EventChannel) error       { return unsupported("rdma_migrate_id") }
func (ID) SetLocalECE(uint32, uint32) error { return unsupported("rdma_set_local_ece") }
func (ID) RemoteECE() (uint32, uint32, error) {
	return 0, 0, unsupported("rdma_get_remote_ece")
}
func (ID) RejectECE([]byte) error { return unsupported("rdma_reject_ece") }
func (ID) JoinMulticast(SockAddr, uint32, uint64) error {
	return unsupported("rdma_join_multicast")
}
func (ID) LeaveMulticast(SockAddr) error { return unsupported("rdma_leave_multicast") }
