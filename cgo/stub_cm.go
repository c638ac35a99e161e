//go:build !linux || !cgo

package cgo

// EventChannel is a librdmacm event channel.
type EventChannel struct{}

// ID is a cm_id.
type ID struct{}

// DeviceList pins the contexts that librdmacm has open.
type DeviceList struct{}

// EventReader fetches the events of one channel.
type EventReader struct{}

// IsNil reports whether the handle names no object: always, here.
func (EventChannel) IsNil() bool { return true }
func (ID) IsNil() bool           { return true }
func (DeviceList) IsNil() bool   { return true }

// CreateEventChannel is not supported in this build.
func CreateEventChannel() (EventChannel, error) {
	return EventChannel{}, unsupported("rdma_create_event_channel")
}

// DestroyEventChannel does nothing in this build.
func DestroyEventChannel(EventChannel) {}

// DupFD is not supported in this build.
func (EventChannel) DupFD() (uintptr, error) { return 0, unsupported("fcntl") }

// NewEventReader makes a reader without events.
func NewEventReader(EventChannel) *EventReader { return &EventReader{} }

// Free does nothing in this build.
func (*EventReader) Free() {}

// Next is not supported in this build.
func (*EventReader) Next() (Event, bool, error) {
	return Event{}, false, unsupported("rdma_get_cm_event")
}

// CreateID is not supported in this build.
func CreateID(EventChannel, uint64, int) (ID, error) { return ID{}, unsupported("rdma_create_id") }

// CMDevices is not supported in this build.
func CMDevices() (DeviceList, []Context, error) {
	return DeviceList{}, nil, unsupported("rdma_get_devices")
}

// Free does nothing in this build.
func (DeviceList) Free() {}

// Index returns -1 in this build.
func (Context) Index() int { return -1 }

// No id exists in this build, so none of its methods can be reached with one;
// they say so all the same.

func (ID) SetCookie(uint64)                       {}
func (ID) Info() IDInfo                           { return IDInfo{DeviceIndex: -1} }
func (ID) DestroyQP()                             {}
func (ID) MayHaveQP() error                       { return unsupported("rdma_init_qp_attr") }
func (ID) Destroy() error                         { return unsupported("rdma_destroy_id") }
func (ID) Bind(SockAddr) error                    { return unsupported("rdma_bind_addr") }
func (ID) ResolveAddr(_, _ SockAddr, _ int) error { return unsupported("rdma_resolve_addr") }
func (ID) ResolveRoute(int) error                 { return unsupported("rdma_resolve_route") }
func (ID) Listen(int) error                       { return unsupported("rdma_listen") }
func (ID) Connect(ConnParam, []byte) error        { return unsupported("rdma_connect") }
func (ID) Accept(ConnParam, []byte) error         { return unsupported("rdma_accept") }
func (ID) Reject([]byte) error                    { return unsupported("rdma_reject") }
func (ID) Disconnect() error                      { return unsupported("rdma_disconnect") }
func (ID) SetOption(_, _ int, _ []byte) error     { return unsupported("rdma_set_option") }
func (ID) CreateQP(PD, *QPInitAttr) (QP, error)   { return QP{}, unsupported("rdma_create_qp") }
