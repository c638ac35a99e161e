//go:build linux && cgo

package cgo

// #include "rb_verbs.h"
import "C"

import (
	"encoding/binary"
	"strings"
	"syscall"
	"unsafe"
)

// Devices lists the RDMA devices that a provider exists for.
//
// Implements: struct ibv_device **ibv_get_device_list(int *num_devices)
// and void ibv_free_device_list(struct ibv_device **list)
// and const char *ibv_get_device_name(struct ibv_device *device)
// and __be64 ibv_get_device_guid(struct ibv_device *device)
func Devices() ([]DeviceInfo, error) {
	enter()
	defer leave()
	for room := 16; ; {
		buf := make([]C.struct_rb_device, room)
		var n int
		const op = "ibv_get_device_list"
		err := listing(op, func() error {
			n = int(C.rb_devices(&buf[0], C.int(room)))
			return check(op, n)
		})
		if err != nil {
			return nil, err
		}
		if n > room {
			room = n
			continue
		}
		out := make([]DeviceInfo, n)
		for i := range out {
			d := &buf[i]
			out[i] = DeviceInfo{
				Name:      C.GoString(&d.name[0]),
				DevName:   C.GoString(&d.dev_name[0]),
				GUID:      uint64(d.guid),
				Index:     int(d.index),
				NodeType:  int(d.node_type),
				Transport: int(d.transport),
			}
		}
		return out, nil
	}
}

// Open opens the device called name; ENODEV where there is none.
//
// Implements: struct ibv_context *ibv_open_device(struct ibv_device *device)
func Open(name string) (Context, error) {
	enter()
	defer leave()
	// A name of Go's with its terminating zero, alive during the call: no copy
	// in C memory to free.
	const op = "ibv_open_device"
	if strings.IndexByte(name, 0) >= 0 { // C would look for what stands before it
		return Context{}, &Error{Op: op, Errno: syscall.ENODEV}
	}
	b := append([]byte(name), 0)
	var c Context
	err := listing(op, func() error {
		r := C.rb_open((*C.char)(unsafe.Pointer(&b[0])))
		c.p = r.p
		return check(op, int(r.err))
	})
	return c, err
}

// Close closes a context that Open gave.
//
// Implements: int ibv_close_device(struct ibv_context *context)
func (c Context) Close() error {
	enter()
	defer leave()
	return check("ibv_close_device", int(C.rb_close(c.p)))
}

// Name returns the device's name.
func (c Context) Name() string { return C.GoString(C.rb_context_name(c.p)) }

// Transport returns the device's enum ibv_transport_type.
func (c Context) Transport() int { return int(C.rb_context_transport(c.p)) }

// Vectors returns how many interrupt vectors the device has for CQs.
func (c Context) Vectors() int { return int(c.p.num_comp_vectors) }

// QueryDevice asks for the device's limits.
//
// Implements: int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
func (c Context) QueryDevice() (DeviceAttr, error) {
	var a C.struct_ibv_device_attr
	if err := check("ibv_query_device", int(C.rb_query_device(c.p, &a))); err != nil {
		return DeviceAttr{}, err
	}
	return toDeviceAttr(&a), nil
}

func toDeviceAttr(a *C.struct_ibv_device_attr) DeviceAttr {
	return DeviceAttr{
		FirmwareVersion:     C.GoString(&a.fw_ver[0]),
		NodeGUID:            hostOrder(uint64(a.node_guid)),
		SysImageGUID:        hostOrder(uint64(a.sys_image_guid)),
		MaxMRSize:           uint64(a.max_mr_size),
		PageSizeCap:         uint64(a.page_size_cap),
		VendorID:            uint32(a.vendor_id),
		VendorPartID:        uint32(a.vendor_part_id),
		HWVersion:           uint32(a.hw_ver),
		CapFlags:            uint32(a.device_cap_flags),
		AtomicCap:           a.atomic_cap,
		MaxQP:               int(a.max_qp),
		MaxQPWR:             int(a.max_qp_wr),
		MaxSGE:              int(a.max_sge),
		MaxSGERead:          int(a.max_sge_rd),
		MaxCQ:               int(a.max_cq),
		MaxCQE:              int(a.max_cqe),
		MaxMR:               int(a.max_mr),
		MaxPD:               int(a.max_pd),
		MaxAH:               int(a.max_ah),
		MaxMW:               int(a.max_mw),
		MaxQPReadAtomic:     int(a.max_qp_rd_atom),
		MaxQPInitReadAtomic: int(a.max_qp_init_rd_atom),
		MaxResReadAtomic:    int(a.max_res_rd_atom),
		MaxSRQ:              int(a.max_srq),
		MaxSRQWR:            int(a.max_srq_wr),
		MaxSRQSGE:           int(a.max_srq_sge),
		MaxMcastGroups:      int(a.max_mcast_grp),
		MaxMcastQPAttach:    int(a.max_mcast_qp_attach),
		MaxPKeys:            uint16(a.max_pkeys),
		LocalCAAckDelay:     uint8(a.local_ca_ack_delay),
		PhysPortCount:       uint8(a.phys_port_cnt),
	}
}

// hostOrder converts a number that C keeps in network order.
func hostOrder(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}

// QueryPort asks for the state and limits of a port; ports count from 1.
//
// Implements: int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr)
func (c Context) QueryPort(port uint8) (PortAttr, error) {
	var a C.struct_rb_port_attr
	if err := check("ibv_query_port", int(C.rb_query_port(c.p, C.uint8_t(port), &a))); err != nil {
		return PortAttr{}, err
	}
	return PortAttr{
		State:         uint32(a.state),
		MaxMTU:        uint32(a.max_mtu),
		ActiveMTU:     uint32(a.active_mtu),
		GIDTableLen:   int(a.gid_tbl_len),
		CapFlags:      uint32(a.port_cap_flags),
		MaxMsgSize:    uint32(a.max_msg_sz),
		PKeyTableLen:  uint16(a.pkey_tbl_len),
		LID:           uint16(a.lid),
		SMLID:         uint16(a.sm_lid),
		LMC:           uint8(a.lmc),
		ActiveWidth:   uint8(a.active_width),
		ActiveSpeed:   uint8(a.active_speed),
		PhysicalState: uint8(a.phys_state),
		LinkLayer:     uint8(a.link_layer),

		BadPKeys: uint32(a.bad_pkey_cntr), QKeyViolations: uint32(a.qkey_viol_cntr),
		CapFlags2: uint16(a.port_cap_flags2), MaxVLs: uint8(a.max_vl_num), SMSL: uint8(a.sm_sl),
		SubnetTimeout: uint8(a.subnet_timeout), InitTypeReply: uint8(a.init_type_reply), Flags: uint8(a.flags),
	}, nil
}

// QueryGIDTable reads the valid rows of the GID tables of all ports into out
// and returns how many there are. The kernel refuses with EINVAL where out has
// no room for them.
//
// Implements: ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags)
func (c Context) QueryGIDTable(out []GIDEntry) (int, error) {
	n := int(C.rb_query_gid_table(c.p, (*C.struct_ibv_gid_entry)(unsafe.Pointer(unsafe.SliceData(out))), C.size_t(len(out))))
	if err := check("ibv_query_gid_table", n); err != nil {
		return 0, err
	}
	return n, nil
}

// QueryGID reads one row of a port's GID table.
//
// Implements: int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
func (c Context) QueryGID(port uint8, index int) (GIDEntry, error) {
	var e GIDEntry
	r := C.rb_query_gid_ex(c.p, C.uint32_t(port), C.uint32_t(index), (*C.struct_ibv_gid_entry)(unsafe.Pointer(&e)))
	return e, check("ibv_query_gid_ex", int(r))
}

// QueryPKey reads one row of a port's P_Key table, in host order.
//
// Implements: int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
func (c Context) QueryPKey(port uint8, index int) (uint16, error) {
	r := int(C.rb_query_pkey(c.p, C.uint8_t(port), C.int(index)))
	return uint16(r), check("ibv_query_pkey", r)
}

// AllocPD allocates a protection domain.
//
// Implements: struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (c Context) AllocPD() (PD, error) {
	enter()
	defer leave()
	r := C.rb_alloc_pd(c.p)
	return PD{r.p}, check("ibv_alloc_pd", int(r.err))
}

// Dealloc frees a protection domain.
//
// Implements: int ibv_dealloc_pd(struct ibv_pd *pd)
func (p PD) Dealloc() error {
	enter()
	defer leave()
	return check("ibv_dealloc_pd", int(C.rb_dealloc_pd(p.p)))
}

// RegMR registers length bytes at addr, which the caller keeps in place until
// the region is deregistered.
//
// Implements: struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (p PD) RegMR(addr uintptr, length int, access uint32) (mr MR, lkey, rkey uint32, err error) {
	enter()
	defer leave()
	r := C.rb_reg_mr(p.p, C.uintptr_t(addr), C.size_t(length), C.uint(access))
	if err := check("ibv_reg_mr", int(r.err)); err != nil {
		return MR{}, 0, 0, err
	}
	return MR{r.p}, uint32(r.p.lkey), uint32(r.p.rkey), nil
}

// Dereg deregisters a memory region.
//
// Implements: int ibv_dereg_mr(struct ibv_mr *mr)
func (m MR) Dereg() error {
	enter()
	defer leave()
	return check("ibv_dereg_mr", int(C.rb_dereg_mr(m.p)))
}

// CreateCompChannel creates a completion channel with a non-blocking descriptor.
//
// Implements: struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (c Context) CreateCompChannel() (CompChannel, error) {
	enter()
	defer leave()
	r := C.rb_create_channel(c.p)
	return CompChannel{r.p}, check("ibv_create_comp_channel", int(r.err))
}

// DupFD duplicates the channel's descriptor, which becomes readable when an
// event waits. The duplicate is non-blocking too, and the caller's to close.
func (h CompChannel) DupFD() (uintptr, error) {
	fd := int(C.rb_dup_fd(h.p.fd))
	return uintptr(fd), check("fcntl", fd)
}

// Events fetches queued completion events, acknowledges them, and writes the
// cookies of their CQs into cookies. It returns 0 where none is queued.
//
// Implements: int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
// and void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (h CompChannel) Events(cookies []uint64) (int, error) {
	n := int(C.rb_channel_events(h.p, (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(cookies))), C.int(len(cookies))))
	return n, check("ibv_get_cq_event", n)
}

// Destroy destroys a completion channel that no CQ uses.
//
// Implements: int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (h CompChannel) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_comp_channel", int(C.rb_destroy_channel(h.p)))
}

// CreateCQ creates a completion queue of at least cqe entries. The channel may
// be the zero handle; its events carry cookie.
//
// Implements: struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
func (c Context) CreateCQ(cqe int, cookie uint64, ch CompChannel, vector int) (CQ, error) {
	enter()
	defer leave()
	r := C.rb_create_cq(c.p, C.int(cqe), C.uint64_t(cookie), ch.p, C.int(vector))
	return CQ{r.p}, check("ibv_create_cq", int(r.err))
}

// Size returns how many entries the CQ has room for.
func (q CQ) Size() int { return int(q.p.cqe) }

// Destroy destroys a completion queue that no QP uses.
//
// Implements: int ibv_destroy_cq(struct ibv_cq *cq)
func (q CQ) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_cq", int(C.rb_destroy_cq(q.p)))
}

// CreateQP creates a queue pair and writes the granted capacities into a.Cap.
//
// Implements: struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
// and struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr_ex)
func (p PD) CreateQP(a *QPInitAttr) (QP, error) {
	enter()
	defer leave()
	if a.extended() {
		return p.createQPEx(a)
	}
	init := toQPInitAttr(a)
	r := C.rb_create_qp(p.p, &init)
	if err := check("ibv_create_qp", int(r.err)); err != nil {
		return QP{}, err
	}
	fromQPCap(&init.cap, &a.Cap)
	return QP{r.p}, nil
}

func toQPInitAttr(a *QPInitAttr) C.struct_ibv_qp_init_attr {
	c := C.struct_ibv_qp_init_attr{
		send_cq: a.SendCQ.p,
		recv_cq: a.RecvCQ.p,
		srq:     a.SRQ.p,
		cap:     toQPCap(&a.Cap),
		qp_type: a.Type,
	}
	if a.SignalAll {
		c.sq_sig_all = 1
	}
	return c
}

func toQPCap(a *QPCap) C.struct_ibv_qp_cap {
	return C.struct_ibv_qp_cap{
		max_send_wr:     C.uint32_t(a.MaxSendWR),
		max_recv_wr:     C.uint32_t(a.MaxRecvWR),
		max_send_sge:    C.uint32_t(a.MaxSendSGE),
		max_recv_sge:    C.uint32_t(a.MaxRecvSGE),
		max_inline_data: C.uint32_t(a.MaxInline),
	}
}

func fromQPCap(c *C.struct_ibv_qp_cap, out *QPCap) {
	*out = QPCap{
		MaxSendWR:  uint32(c.max_send_wr),
		MaxRecvWR:  uint32(c.max_recv_wr),
		MaxSendSGE: uint32(c.max_send_sge),
		MaxRecvSGE: uint32(c.max_recv_sge),
		MaxInline:  uint32(c.max_inline_data),
	}
}

// Modify changes the attributes that mask (enum ibv_qp_attr_mask) names.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (q QP) Modify(a *QPAttr, mask uint32) error {
	enter()
	defer leave()
	var c C.struct_ibv_qp_attr
	c.qp_state = a.State
	c.cur_qp_state = a.CurState
	c.path_mtu = a.PathMTU
	c.path_mig_state = a.PathMigState
	c.qkey = C.uint32_t(a.QKey)
	c.rq_psn = C.uint32_t(a.RQPSN)
	c.sq_psn = C.uint32_t(a.SQPSN)
	c.dest_qp_num = C.uint32_t(a.DestQPNum)
	c.qp_access_flags = C.uint(a.Access)
	c.cap = toQPCap(&a.Cap)
	a.AH.toC(&c.ah_attr)
	c.pkey_index = C.uint16_t(a.PKeyIndex)
	c.en_sqd_async_notify = C.uint8_t(a.SQDAsyncNotify)
	c.max_rd_atomic = C.uint8_t(a.MaxReadAtomic)
	c.max_dest_rd_atomic = C.uint8_t(a.MaxDestReadAtomic)
	c.min_rnr_timer = C.uint8_t(a.MinRNRTimer)
	c.port_num = C.uint8_t(a.Port)
	c.timeout = C.uint8_t(a.Timeout)
	c.retry_cnt = C.uint8_t(a.RetryCount)
	c.rnr_retry = C.uint8_t(a.RNRRetry)
	c.rate_limit = C.uint32_t(a.RateLimit)
	return check("ibv_modify_qp", int(C.rb_modify_qp(q.p, &c, C.int(mask))))
}

// Query reads the attributes that mask names, and the capacities.
//
// Implements: int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
func (q QP) Query(mask uint32) (QPAttr, error) {
	enter()
	defer leave()
	var c C.struct_ibv_qp_attr
	var init C.struct_ibv_qp_init_attr
	if err := check("ibv_query_qp", int(C.rb_query_qp(q.p, &c, C.int(mask), &init))); err != nil {
		return QPAttr{}, err
	}
	a := qpAttr(&c)
	fromQPCap(&init.cap, &a.Cap)
	return a, nil
}

func qpAttr(c *C.struct_ibv_qp_attr) QPAttr {
	return QPAttr{
		State:             c.qp_state,
		CurState:          c.cur_qp_state,
		PathMTU:           c.path_mtu,
		PathMigState:      c.path_mig_state,
		QKey:              uint32(c.qkey),
		RQPSN:             uint32(c.rq_psn),
		SQPSN:             uint32(c.sq_psn),
		DestQPNum:         uint32(c.dest_qp_num),
		Access:            uint32(c.qp_access_flags),
		AH:                ahAttr(&c.ah_attr),
		PKeyIndex:         uint16(c.pkey_index),
		SQDraining:        uint8(c.sq_draining),
		MaxReadAtomic:     uint8(c.max_rd_atomic),
		MaxDestReadAtomic: uint8(c.max_dest_rd_atomic),
		MinRNRTimer:       uint8(c.min_rnr_timer),
		Port:              uint8(c.port_num),
		Timeout:           uint8(c.timeout),
		RetryCount:        uint8(c.retry_cnt),
		RNRRetry:          uint8(c.rnr_retry),
		RateLimit:         uint32(c.rate_limit),
	}
}

// Number returns the QP's number.
func (q QP) Number() uint32 { return uint32(q.p.qp_num) }

// Destroy destroys the queue pair.
//
// Implements: int ibv_destroy_qp(struct ibv_qp *qp)
func (q QP) Destroy() error {
	enter()
	defer leave()
	return check("ibv_destroy_qp", int(C.rb_destroy_qp(q.p)))
}
