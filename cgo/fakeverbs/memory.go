//go:build linux && cgo

package fakeverbs

// #include "rb_fake.h"
import "C"

import (
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// Attributes gives the device's extended attributes values that can be told from
// each other; of the first known bytes only (0: all) its provider knows.
func (d *Device) Attributes(known int) {
	m := &d.p.memory
	a := &m.attr
	m.known = C.size_t(known)
	a.orig_attr.max_qp = 11
	a.orig_attr.phys_port_cnt = 2
	a.odp_caps.general_caps = C.IBV_ODP_SUPPORT
	a.odp_caps.per_transport_caps.rc_odp_caps = 0x3f
	a.odp_caps.per_transport_caps.uc_odp_caps = 0x07
	a.odp_caps.per_transport_caps.ud_odp_caps = 0x01
	a.xrc_odp_caps = 0x20
	a.completion_timestamp_mask = 1<<48 - 1
	a.hca_core_clock = 156250
	a.device_cap_flags_ex = 1 << 34
	a.tso_caps.max_tso = 1 << 18
	a.tso_caps.supported_qpts = 1 << C.IBV_QPT_RAW_PACKET
	a.rss_caps.supported_qpts = 1 << C.IBV_QPT_RAW_PACKET
	a.rss_caps.max_rwq_indirection_tables = 21
	a.rss_caps.max_rwq_indirection_table_size = 22
	a.rss_caps.rx_hash_fields_mask = 0x80000003
	a.rss_caps.rx_hash_function = C.IBV_RX_HASH_FUNC_TOEPLITZ
	a.max_wq_type_rq = 23
	a.packet_pacing_caps.qp_rate_limit_min = 24
	a.packet_pacing_caps.qp_rate_limit_max = 25
	a.packet_pacing_caps.supported_qpts = 1 << C.IBV_QPT_RC
	a.raw_packet_caps = C.IBV_RAW_PACKET_CAP_IP_CSUM
	a.tm_caps.max_rndv_hdr_size = 26
	a.tm_caps.max_num_tags = 27
	a.tm_caps.flags = C.IBV_TM_CAP_RC
	a.tm_caps.max_ops = 28
	a.tm_caps.max_sge = 29
	a.cq_mod_caps.max_cq_count = 30
	a.cq_mod_caps.max_cq_period = 31
	a.max_dm_size = 1 << 16
	a.pci_atomic_caps.fetch_add = 1
	a.pci_atomic_caps.swap = 2
	a.pci_atomic_caps.compare_swap = 3
	a.phys_port_cnt_ex = 300
}

// SetODP sets what general caps of on-demand paging the device has.
func (d *Device) SetODP(general uint64) { d.p.memory.attr.odp_caps.general_caps = C.uint64_t(general) }

// SetClock sets the device's clock; 0: it has none.
func (d *Device) SetClock(ticks uint64) { d.p.memory.clock = C.uint64_t(ticks) }

// AttrSizeBefore is how much of the attributes a provider knows that is older
// than the size of device memory.
const AttrSizeBefore = C.RB_FAKE_ATTR_BEFORE_DM

// Regions and Domains count what is alive: regions without host memory; thread
// and parent domains.
func (d *Device) Regions() int { return int(d.p.memory.regions) }

// Domains counts thread and parent domains.
func (d *Device) Domains() int { return int(d.p.memory.domains) }

// Dereg destroys a region that the device made.
func (d *Device) Dereg(m cgo.MR) error {
	C.rb_fake_dereg_mr((*C.struct_ibv_mr)(m.Pointer()))
	return nil
}

// DeallocPD destroys a parent domain that the device made.
func (d *Device) DeallocPD(p cgo.PD) error {
	C.rb_fake_dealloc_pd((*C.struct_ibv_pd)(p.Pointer()))
	return nil
}

// ParentOf tells whose parent domain p is, and of which thread domain.
func (d *Device) ParentOf(p cgo.PD) (pd, td unsafe.Pointer) {
	x := (*C.struct_rb_fake_parent)(p.Pointer())
	return unsafe.Pointer(x.of), unsafe.Pointer(x.td)
}

// Advice is the last advice that the device was given.
type Advice struct {
	Advice, Flags, Ranges uint32
	Last                  cgo.SGE
}

// Advised returns the last advice.
func (d *Device) Advised() Advice {
	m := &d.p.memory
	return Advice{uint32(m.advice), uint32(m.advice_flags), uint32(m.advised),
		cgo.SGE{Addr: uint64(m.last.addr), Length: uint32(m.last.length), LKey: uint32(m.last.lkey)}}
}

// DMAlign is the alignment, as a power of two, of the device memory made last.
func (d *Device) DMAlign() int { return int(d.p.memory.dm_log_align) }
