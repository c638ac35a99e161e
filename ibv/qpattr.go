package ibv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/railbind/railbind/cgo"
)

// AttrMask names attributes of a queue pair.
type AttrMask uint32

// Attributes of a queue pair, for Modify.
const (
	AttrState           AttrMask = 1 << 0
	AttrCurState        AttrMask = 1 << 1
	AttrSQDAsyncNotify  AttrMask = 1 << 2
	AttrAccess          AttrMask = 1 << 3
	AttrPKeyIndex       AttrMask = 1 << 4
	AttrPort            AttrMask = 1 << 5
	AttrQKey            AttrMask = 1 << 6
	AttrAH              AttrMask = 1 << 7
	AttrPathMTU         AttrMask = 1 << 8
	AttrTimeout         AttrMask = 1 << 9
	AttrRetryCount      AttrMask = 1 << 10
	AttrRNRRetry        AttrMask = 1 << 11
	AttrRQPSN           AttrMask = 1 << 12
	AttrMaxRdAtomic     AttrMask = 1 << 13
	AttrAltPath         AttrMask = 1 << 14
	AttrMinRNRTimer     AttrMask = 1 << 15
	AttrSQPSN           AttrMask = 1 << 16
	AttrMaxDestRdAtomic AttrMask = 1 << 17
	AttrPathMigState    AttrMask = 1 << 18
	AttrCap             AttrMask = 1 << 19
	AttrDestQPNum       AttrMask = 1 << 20
	AttrRateLimit       AttrMask = 1 << 25
)

var attrNames = []bitName[AttrMask]{
	{AttrState, "State"}, {AttrCurState, "CurState"}, {AttrSQDAsyncNotify, "SQDAsyncNotify"},
	{AttrAccess, "Access"}, {AttrPKeyIndex, "PKeyIndex"}, {AttrPort, "Port"}, {AttrQKey, "QKey"},
	{AttrAH, "AH"}, {AttrPathMTU, "PathMTU"}, {AttrTimeout, "Timeout"}, {AttrRetryCount, "RetryCount"},
	{AttrRNRRetry, "RNRRetry"}, {AttrRQPSN, "RQPSN"}, {AttrMaxRdAtomic, "MaxRdAtomic"},
	{AttrAltPath, "AltPath"}, {AttrMinRNRTimer, "MinRNRTimer"}, {AttrSQPSN, "SQPSN"},
	{AttrMaxDestRdAtomic, "MaxDestRdAtomic"}, {AttrPathMigState, "PathMigState"}, {AttrCap, "Cap"},
	{AttrDestQPNum, "DestQPNum"}, {AttrRateLimit, "RateLimit"},
}

func (m AttrMask) String() string {
	return strings.Join(bitNames(m, attrNames), ", ")
}

// AHAttr is the way to the peer.
type AHAttr struct {
	// DGID is the peer's GID, and SGIDIndex the row of the own GID table to send
	// from. RoCE always needs both; InfiniBand within a subnet needs the LID only.
	DGID         GID
	SGIDIndex    int
	DLID         uint16 // InfiniBand
	Port         uint8  // own port, from 1
	Global       bool   // DGID and SGIDIndex are meant
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	SL           uint8  // service level
	SrcPathBits  uint8
	StaticRate   uint8
}

// QPAttr is what Modify sets, where a mask says which fields count, and what
// Query reads.
type QPAttr struct {
	State, CurState QPState
	Access          Access // what the peer may do; needs the region's right as well
	PKeyIndex       uint16
	Port            uint8 // from 1
	AH              AHAttr
	PathMTU         MTU
	DestQPNum       uint32 // 24 bits
	RQPSN, SQPSN    uint32 // first packet number of the peer's and of the own sends, 24 bits
	MaxRdAtomic     int    // READs and atomics this side starts at once
	MaxDestRdAtomic int    // READs and atomics this side serves at once
	MinRNRTimer     uint8  // 0 to 31, coded: 12 is 0.64 ms
	Timeout         uint8  // 0 to 31: 4.096 us * 2^Timeout until a retry; 0 waits for ever
	RetryCount      uint8  // 0 to 7
	RNRRetry        uint8  // 0 to 7; 7 retries for ever
	QKey            uint32
	RateLimit       uint32 // kbit/s
	SQDAsyncNotify  bool
	SQDraining      bool  // Query only
	Cap             QPCap // Query only
}

func (a *QPAttr) toC() cgo.QPAttr {
	c := cgo.QPAttr{
		State: uint32(a.State), CurState: uint32(a.CurState), PathMTU: uint32(a.PathMTU), QKey: a.QKey,
		RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPNum: a.DestQPNum, Access: uint32(a.Access.full()),
		AH:        a.AH.toC(),
		PKeyIndex: a.PKeyIndex, MaxReadAtomic: uint8(a.MaxRdAtomic), MaxDestReadAtomic: uint8(a.MaxDestRdAtomic),
		MinRNRTimer: a.MinRNRTimer, Port: a.Port, Timeout: a.Timeout, RetryCount: a.RetryCount,
		RNRRetry: a.RNRRetry, RateLimit: a.RateLimit,
	}
	if a.SQDAsyncNotify {
		c.SQDAsyncNotify = 1
	}
	return c
}

func qpAttr(c cgo.QPAttr) QPAttr {
	return QPAttr{
		State: QPState(c.State), CurState: QPState(c.CurState), PathMTU: MTU(c.PathMTU), QKey: c.QKey,
		RQPSN: c.RQPSN, SQPSN: c.SQPSN, DestQPNum: c.DestQPNum, Access: Access(c.Access),
		AH:        ahAttrOf(c.AH),
		PKeyIndex: c.PKeyIndex, MaxRdAtomic: int(c.MaxReadAtomic), MaxDestRdAtomic: int(c.MaxDestReadAtomic),
		MinRNRTimer: c.MinRNRTimer, Port: c.Port, Timeout: c.Timeout, RetryCount: c.RetryCount,
		RNRRetry: c.RNRRetry, RateLimit: c.RateLimit, SQDraining: c.SQDraining != 0,
		Cap: QPCap{
			MaxSend: int(c.Cap.MaxSendWR), MaxRecv: int(c.Cap.MaxRecvWR), MaxSendSGE: int(c.Cap.MaxSendSGE),
			MaxRecvSGE: int(c.Cap.MaxRecvSGE), MaxInline: int(c.Cap.MaxInline),
		},
	}
}

// Query asks the device for the queue pair's attributes and capacities.
//
// Implements: int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
func (q *QP) Query() (QPAttr, error) {
	const op = "query QP"
	if err := q.life().enter(op); err != nil {
		return QPAttr{}, err
	}
	defer q.node.leave()
	const all = AttrCap<<2 - 1 // the bits up to AttrDestQPNum
	c, err := q.h.Query(uint32(all))
	if err != nil {
		return QPAttr{}, fail(op, q.node.name, err)
	}
	return qpAttr(c), nil
}

// Modify sets the attributes that mask names; AttrState makes a transition.
// Where the device refuses one with EINVAL, the error says which attributes the
// transition lacks or does not take. The queue pair of a connection manager is
// the manager's to move.
//
// Poll the CQs empty before a transition to RESET: the device forgets requests,
// and completions of a queue pair's former life could be taken for new ones.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (q *QP) Modify(a QPAttr, mask AttrMask) error {
	const op = "modify QP"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	q.modify.Lock()
	defer q.modify.Unlock()
	if s := a.overflow(mask); s != "" {
		return invalid(op, q.node.name, ErrInvalid, "%s", s)
	}
	from := q.State()
	c := a.toC()
	if err := q.h.Modify(&c, uint32(mask)); err != nil {
		e := &Error{Op: op, Object: q.node.name, Err: err}
		if errors.Is(err, syscall.EINVAL) {
			e.Hint = or(q.beyond(&a, mask), or(q.noGID(&a, mask), explain(q.typ, from, a, mask)))
		}
		if errors.Is(err, syscall.ENODATA) {
			e.Hint = q.noGID(&a, mask)
		}
		if errors.Is(err, syscall.ENODEV) {
			e.Kind = ErrDeviceRemoved
		}
		return e
	}
	if mask&AttrMaxRdAtomic != 0 {
		q.rec.SetReadDepth(uint32(a.MaxRdAtomic))
	}
	if mask&AttrState != 0 {
		q.moved(a.State)
	}
	return nil
}

// noGID says that the row of the GID table to send from is empty, where it is.
func (q *QP) noGID(a *QPAttr, mask AttrMask) string {
	if mask&AttrAH == 0 {
		return ""
	}
	return q.pd.ctx.noGID(&a.AH)
}

// explain says what is wrong with a transition that was refused.
func explain(typ QPType, from QPState, a QPAttr, mask AttrMask) string {
	to := from
	if mask&AttrState != 0 {
		to = a.State
	}
	arrow := from.String() + " -> " + to.String()
	t, ok := transitionOf(typ, from, to)
	if !ok {
		var next []string
		for s := QPReset; s <= QPErr; s++ {
			if _, ok := transitionOf(typ, from, s); ok {
				next = append(next, s.String())
			}
		}
		return fmt.Sprintf("no transition %s; from %v one gets to %s", arrow, from, strings.Join(next, ", "))
	}
	var wrong []string
	if m := t.need &^ mask; m != 0 {
		wrong = append(wrong, "lacks "+m.String())
	}
	if m := mask &^ (t.need | t.may | AttrState); m != 0 {
		wrong = append(wrong, "does not take "+m.String())
	}
	if len(wrong) > 0 {
		return arrow + " " + strings.Join(wrong, " and ")
	}
	wrong = a.outOfRange(mask)
	if len(wrong) > 0 {
		return arrow + ": " + strings.Join(wrong, ", ")
	}
	return arrow + " has the attributes it needs: one of the values is not possible on this device (port, P_Key or GID index, MTU, depths)"
}

// overflow names a value that its field in C cannot hold.
func (a *QPAttr) overflow(mask AttrMask) string {
	for _, v := range []struct {
		bit  AttrMask
		name string
		v    int
	}{{AttrAH, "AH.SGIDIndex", a.AH.SGIDIndex}, {AttrMaxRdAtomic, "MaxRdAtomic", a.MaxRdAtomic},
		{AttrMaxDestRdAtomic, "MaxDestRdAtomic", a.MaxDestRdAtomic}} {
		if mask&v.bit != 0 && (v.v < 0 || v.v > 255) {
			return fmt.Sprintf("%s is %d, it has 8 bits", v.name, v.v)
		}
	}
	return ""
}

// outOfRange names values that no device takes.
func (a *QPAttr) outOfRange(mask AttrMask) []string {
	var s []string
	bad := func(m AttrMask, cond bool, format string, args ...any) {
		if mask&m != 0 && cond {
			s = append(s, fmt.Sprintf(format, args...))
		}
	}
	bad(AttrPort, a.Port == 0, "Port is 0, ports count from 1")
	bad(AttrAH, a.AH.Port == 0, "AH.Port is 0, ports count from 1")
	bad(AttrPathMTU, a.PathMTU.Bytes() == 0, "PathMTU is %v", a.PathMTU)
	bad(AttrDestQPNum, a.DestQPNum>>24 != 0, "DestQPNum %#x has more than 24 bits", a.DestQPNum)
	bad(AttrRQPSN, a.RQPSN>>24 != 0, "RQPSN %#x has more than 24 bits", a.RQPSN)
	bad(AttrSQPSN, a.SQPSN>>24 != 0, "SQPSN %#x has more than 24 bits", a.SQPSN)
	bad(AttrMinRNRTimer, a.MinRNRTimer > 31, "MinRNRTimer is %d, at most 31", a.MinRNRTimer)
	bad(AttrTimeout, a.Timeout > 31, "Timeout is %d, at most 31", a.Timeout)
	bad(AttrRetryCount, a.RetryCount > 7, "RetryCount is %d, at most 7", a.RetryCount)
	bad(AttrRNRRetry, a.RNRRetry > 7, "RNRRetry is %d, at most 7", a.RNRRetry)
	return s
}

// ConnectConfig connects a queue pair by hand: each side gives the other its QP
// number, packet number and GID (or LID) by some means of its own. Zero means
// the default where one is named; Modify can set what this cannot.
type ConnectConfig struct {
	Port      uint8 // own port. Default 1
	PKeyIndex uint16
	Access    Access // what the peer may do. Default nothing

	// The peer.
	DestQPNum uint32
	DestGID   GID    // RoCE, and InfiniBand across subnets
	DestLID   uint16 // InfiniBand
	DestPSN   uint32 // the peer's PSN

	QKey uint32 // UD only: the key that datagrams to this queue pair must carry

	GIDIndex int    // own row of the GID table, see Context.FindGID and GIDTable
	PSN      uint32 // first packet number of the own sends, 24 bits

	// MTU is the path MTU, the same at both ends: the smaller of the two ports'
	// active ones. Default the own port's.
	MTU MTU

	// MaxRdAtomic is how many READs and atomics this side starts at once;
	// MaxDestRdAtomic how many it serves, at least the peer's other one.
	// Default min(16, what the device can).
	MaxRdAtomic, MaxDestRdAtomic int

	HopLimit     uint8 // Default 64
	TrafficClass uint8
	SL           uint8

	Timeout     uint8 // Default 14: 67 ms until a retry
	RetryCount  uint8 // 1 to 7. Default 6: Soft-RoCE takes 7 for ever
	RNRRetry    uint8 // 1 to 7. Default 7: for ever
	MinRNRTimer uint8 // 1 to 31. Default 12: 0.64 ms
}

// ToInit takes a queue pair from RESET to INIT, after which receives can be
// posted: a peer may send as soon as it is connected.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (q *QP) ToInit(cfg ConnectConfig) error {
	if err := q.life().enter("initialize QP"); err != nil {
		return err
	}
	defer q.node.leave()
	t, _ := transitionOf(q.typ, QPReset, QPInit)
	return q.Modify(QPAttr{State: QPInit, PKeyIndex: cfg.PKeyIndex, Port: or(cfg.Port, 1), Access: cfg.Access, QKey: cfg.QKey},
		AttrState|t.need)
}

// Connect takes a queue pair in INIT to RTR and RTS. The peer answers once it
// is connected as well. A UD or raw packet queue pair has no peer: it is ready
// for any destination then, and the peer's fields do not count.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (q *QP) Connect(cfg ConnectConfig) error {
	const op = "connect QP"
	if err := q.life().enter(op); err != nil {
		return err
	}
	defer q.node.leave()
	port := or(cfg.Port, 1)
	lim, err := q.pd.ctx.known()
	if err != nil {
		return err
	}
	p, err := q.pd.ctx.QueryPort(port)
	if err != nil {
		return err
	}
	q.maxMsg.Store(p.MaxMsgSize)
	if q.typ == UD {
		q.maxMsg.Store(uint32(p.ActiveMTU.Bytes()))
	}
	toRTR, _ := transitionOf(q.typ, QPInit, QPRTR)
	if err := q.Modify(QPAttr{
		State:   QPRTR,
		PathMTU: or(cfg.MTU, p.ActiveMTU),
		AH: AHAttr{
			DGID: cfg.DestGID, SGIDIndex: cfg.GIDIndex, DLID: cfg.DestLID, Port: port,
			Global: !cfg.DestGID.IsZero(), HopLimit: or(cfg.HopLimit, 64), TrafficClass: cfg.TrafficClass, SL: cfg.SL,
		},
		DestQPNum:       cfg.DestQPNum,
		RQPSN:           cfg.DestPSN,
		MaxDestRdAtomic: or(cfg.MaxDestRdAtomic, min(16, lim.dev.MaxQPReadAtomic)),
		MinRNRTimer:     or(cfg.MinRNRTimer, 12),
	}, AttrState|toRTR.need); err != nil {
		return err
	}
	toRTS, _ := transitionOf(q.typ, QPRTR, QPRTS)
	return q.Modify(QPAttr{
		State:       QPRTS,
		SQPSN:       cfg.PSN,
		MaxRdAtomic: or(cfg.MaxRdAtomic, min(16, lim.dev.MaxQPInitReadAtomic)),
		Timeout:     or(cfg.Timeout, 14),
		RetryCount:  or(cfg.RetryCount, 6),
		RNRRetry:    or(cfg.RNRRetry, 7),
	}, AttrState|toRTS.need)
}

// ToError takes the queue pair to ERR: requests in flight are flushed, each
// completes with WCFlushErr or what it came to.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (q *QP) ToError() error { return q.Modify(QPAttr{State: QPErr}, AttrState) }

// Reset takes the queue pair to RESET; see Modify.
//
// Implements: int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
func (q *QP) Reset() error { return q.Modify(QPAttr{State: QPReset}, AttrState) }

// or is v, or def where v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
