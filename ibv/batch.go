package ibv

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/railbind/railbind/cgo"
)

// BatchConfig says how a batch is made.
type BatchConfig struct {
	// Requests is how many work requests the batch has. Default 1.
	Requests int
	// SGEs is the room for pieces of memory in each request. Default 1, at most
	// what the queue pair was granted.
	SGEs int
	// Inline is the room for inline data in each request, in bytes, for
	// SendInline and WriteInline, or for the header of SendTSO. Default 0, at most
	// what the queue pair was granted.
	Inline int
}

// batch is what SendBatch and RecvBatch share: a chain of requests in C memory,
// prepared once and posted in one crossing as often as one likes. The memory
// needs no Close: the device never looks at it after a post returned.
type batch struct {
	q    *poster
	mem  *cgo.Memory
	hdr  *cgo.Batch
	sges []cgo.SGE
	refs []ref // what each SGE names
	even even
	per  int // SGEs of each request
	n    int // requests

	first  unsafe.Pointer // request 0
	stride uintptr
	// What the header says of the range that was posted last.
	from, to int

	used  []*batchUse
	cuse  []cgo.BatchUse // the same for C
	extra []*batchUse    // what each request holds beyond its SGEs; nil where none does
	spare *batchUse      // one that is in nobody's use: a batch that changes its region allocates nothing
}

// ref is what an SGE names: enough to move it within its region at the cost of
// one comparison. The zero value names nothing.
type ref struct {
	sge   *cgo.SGE
	base  uint64 // address of the region
	spots uint   // how many offsets leave room for the length
	use   *batchUse
}

// even is what the first SGEs of all requests have in common: with it the
// addresses of a range are set without looking at what each names. Worked out
// again after a change of any SGE.
type even struct {
	known bool
	base  uint64 // address of the region
	spots uint   // how many offsets suit all of them; 0 where regions differ
}

// batchUse is what requests of the batch hold, mostly a memory region.
type batchUse struct {
	*use
	refs int // how many SGEs name it
	at   int // index in used
}

// init carves the batch's C memory: header, requests, SGEs, uses, inline data.
func (b *batch) init(q *poster, cfg BatchConfig, wrSize uintptr) (wrs, inline unsafe.Pointer, err error) {
	const line = 64
	b.q, b.n, b.per = q, cfg.Requests, cfg.SGEs
	sges := cfg.Requests * cfg.SGEs
	head := uintptr(line)
	atSGE := head + (uintptr(cfg.Requests)*wrSize+line-1)&^(line-1)
	atUse := atSGE + uintptr(sges)*unsafe.Sizeof(cgo.SGE{})
	uses := sges + cfg.Requests // each SGE's, and what else a request holds
	atInline := atUse + uintptr(uses)*unsafe.Sizeof(cgo.BatchUse{})
	b.mem, err = cgo.Alloc(int(atInline) + cfg.Requests*cfg.Inline)
	if err != nil {
		return nil, nil, fail("make batch", q.node.name, err)
	}
	base := b.mem.Pointer()
	b.hdr = (*cgo.Batch)(base)
	b.sges = unsafe.Slice((*cgo.SGE)(unsafe.Add(base, atSGE)), sges)
	b.cuse = unsafe.Slice((*cgo.BatchUse)(unsafe.Add(base, atUse)), uses)
	b.refs = make([]ref, sges)
	*b.hdr = cgo.Batch{QP: q.addr, Uses: uintptr(unsafe.Add(base, atUse))}
	b.first, b.stride = unsafe.Add(base, head), wrSize
	for i := range b.n {
		b.head(i).SGList = uintptr(unsafe.Pointer(&b.sges[i*b.per]))
		b.link(i)
	}
	b.from = -1
	return b.first, unsafe.Add(base, atInline), nil
}

// A request of either kind starts like a receive.
var (
	_ [unsafe.Offsetof(cgo.SendWR{}.Next)]byte   = [unsafe.Offsetof(cgo.RecvWR{}.Next)]byte{}
	_ [unsafe.Offsetof(cgo.SendWR{}.SGList)]byte = [unsafe.Offsetof(cgo.RecvWR{}.SGList)]byte{}
)

// head is what requests of both kinds have in common.
func (b *batch) head(i int) *cgo.RecvWR {
	return (*cgo.RecvWR)(unsafe.Add(b.first, uintptr(i)*b.stride))
}

// maxLength is the most that a request's memory may be in all, of receives too: it
// is told in 32 bits.
const maxLength = math.MaxUint32

// besides is how many bytes request i has without its SGE j.
func (b *batch) besides(i, j int) (total uint64) {
	for x := range int(b.head(i).NumSGE) {
		if x != j {
			total += uint64(b.sges[i*b.per+x].Length)
		}
	}
	return total
}

func (b *batch) tooLong(op string, i int, total, most uint64) error {
	return invalid(op, b.q.node.name, ErrTooLong, "request %d: %d bytes, at most %d", i, total, most)
}

// link chains request i to its successor.
func (b *batch) link(i int) {
	next := uintptr(0)
	if i+1 < b.n {
		next = uintptr(unsafe.Pointer(b.head(i + 1)))
	}
	b.head(i).Next = next
}

// aim points the header at a range of the requests, which span allowed.
func (b *batch) aim(from, n int) {
	if b.to > 0 {
		b.link(b.to - 1)
	}
	b.from, b.to = from, from+n
	if n == 0 {
		return
	}
	b.head(b.to - 1).Next = 0
	b.hdr.First = uintptr(unsafe.Pointer(b.head(from)))
	b.hdr.N, b.hdr.Skip = uint32(n), uint32(from)
}

func (cfg *BatchConfig) check(op, object string, sges, inline int) error {
	if cfg.Requests == 0 {
		cfg.Requests = 1
	}
	if cfg.SGEs == 0 {
		cfg.SGEs = min(1, sges)
	}
	if cfg.Requests < 0 || cfg.Requests > 1<<24 {
		return invalid(op, object, ErrInvalid, "%d requests", cfg.Requests)
	}
	if cfg.SGEs < 0 || cfg.SGEs > sges {
		return invalid(op, object, ErrTooManySGE, "asked for %d, the queue was granted %d", cfg.SGEs, sges)
	}
	if cfg.Inline < 0 || cfg.Inline > inline {
		return invalid(op, object, ErrInlineTooLong, "asked for %d bytes, the queue was granted %d", cfg.Inline, inline)
	}
	return nil
}

// setSGE points SGE k, of request i, to s. need is a right the region must have.
func (b *batch) setSGE(op string, i, k int, s SGE, need Access) error {
	m := s.MR
	r := b.refs[k].use
	if r == nil || r.mr != m {
		var err error
		if r, err = b.bind(op, i, k, m); err != nil {
			return err
		}
	}
	if !inside(s.Offset, s.Length, m.size) {
		return b.outOfRange(op, i, s)
	}
	if need&^m.access != 0 {
		return invalid(op, b.q.node.name, ErrAccess, "%s has %v, this needs %v", m.node.name, m.access, need)
	}
	b.even.known = false
	b.refs[k] = ref{&b.sges[k], m.addr, uint(m.size-s.Length) + 1, r}
	b.sges[k] = cgo.SGE{Addr: m.addr + uint64(s.Offset), Length: uint32(s.Length), LKey: m.lkey}
	return nil
}

func (b *batch) outOfRange(op string, i int, s SGE) error {
	return invalid(op, b.q.node.name, ErrOutOfRange, "request %d: %d bytes at offset %d of %s", i, s.Length, s.Offset, s.MR.node.name)
}

// bind notes that SGE k names region m now.
func (b *batch) bind(op string, i, k int, m *MR) (*batchUse, error) {
	if m == nil {
		return nil, &Error{Op: op, Object: "nil MR", Kind: ErrClosed}
	}
	r, err := b.find(op, &m.held, m)
	if err != nil {
		return nil, err
	}
	b.unbind(k)
	b.add(r, i)
	b.refs[k].use = r
	return r, nil
}

// unbind forgets what SGE k names.
func (b *batch) unbind(k int) {
	r := b.refs[k].use
	if r == nil {
		return
	}
	b.refs[k] = ref{}
	b.remove(r)
}

// hold notes that request i holds h, instead of what it held before.
func (b *batch) hold(op string, i int, h *held) error {
	if b.extra == nil {
		b.extra = make([]*batchUse, b.n)
	}
	old := b.extra[i]
	if old != nil && old.of == h {
		return nil
	}
	r, err := b.find(op, h, nil)
	if err != nil {
		return err
	}
	if old != nil {
		b.remove(old)
	}
	b.add(r, i)
	b.extra[i] = r
	return nil
}

// find returns the batch's use of h, a new one where it has none.
func (b *batch) find(op string, h *held, m *MR) (*batchUse, error) {
	for _, u := range b.used {
		if u.of == h {
			return u, nil
		}
	}
	u, err := b.q.use(op, h, m)
	if err != nil {
		return nil, err
	}
	r := b.spare
	b.spare = nil
	if r == nil {
		r = new(batchUse)
	}
	r.use = u
	return r, nil
}

// add counts one more name for r, in request i.
func (b *batch) add(r *batchUse, i int) {
	if r.refs == 0 {
		r.at = len(b.used)
		b.used = append(b.used, r)
		b.cuse[r.at] = cgo.BatchUse{Use: r.rec.Addr()}
		b.hdr.NumUses = uint32(len(b.used))
	}
	r.refs++
	b.cuse[r.at].Last = max(b.cuse[r.at].Last, uint32(i))
}

// remove counts one less.
func (b *batch) remove(r *batchUse) {
	if r.refs--; r.refs > 0 {
		return
	}
	last := len(b.used) - 1
	b.used[r.at], b.cuse[r.at] = b.used[last], b.cuse[last]
	b.used[r.at].at = r.at
	b.used = b.used[:last]
	b.spare = r
	b.hdr.NumUses = uint32(last)
}

// check refuses indices and objects that would write outside the batch.
func (b *batch) check(op string, i int) error {
	if b == nil || b.hdr == nil {
		return &Error{Op: op, Object: "nil batch", Kind: ErrClosed}
	}
	if uint(i) >= uint(b.n) {
		return invalid(op, b.q.node.name, ErrInvalid, "request %d of a batch of %d", i, b.n)
	}
	return nil
}

// span refuses ranges that leave the batch.
func (b *batch) span(op string, from, n int) error {
	if b == nil || b.hdr == nil {
		return &Error{Op: op, Object: "nil batch", Kind: ErrClosed}
	}
	if !inside(from, n, b.n) {
		return invalid(op, b.q.node.name, ErrInvalid, "requests %d to %d of a batch of %d", from, from+n, b.n)
	}
	return nil
}

// alive keeps what C was given an address of.
func (b *batch) alive() {
	runtime.KeepAlive(b.mem)
	runtime.KeepAlive(b.q.keep)
	runtime.KeepAlive(b.used)
}

// setIDs numbers n requests, from index from on.
func (b *batch) setIDs(from, n int, first uint64) {
	if b == nil || !inside(from, n, b.n) {
		panic(fmt.Sprintf("ibv: IDs of %d requests from index %d on: outside of the batch", n, from))
	}
	for at, end := unsafe.Add(b.first, uintptr(from)*b.stride), first+uint64(n); first != end; first++ {
		(*cgo.RecvWR)(at).ID = first
		at = unsafe.Add(at, b.stride)
	}
	runtime.KeepAlive(b.mem)
}

// setOffsets moves the first SGE of n requests, from index from on: the first of
// them to offset, each later one stride further.
func (b *batch) setOffsets(from, n, offset, stride int) error {
	if b == nil || !inside(from, n, b.n) {
		return ErrOutOfRange
	}
	if n == 0 {
		return nil
	}
	if !b.even.known {
		b.even = b.level()
	}
	defer runtime.KeepAlive(b.mem)
	per := b.per
	if b.even.reaches(n, offset, stride) {
		addr, sges := b.even.base+uint64(offset), b.sges[from*per:(from+n)*per]
		for k := 0; k < len(sges); k += per {
			sges[k].Addr = addr
			addr += uint64(stride)
		}
		return nil
	}
	refs := b.refs[from*per : (from+n)*per]
	for k, at := 0, offset; k < len(refs); k, at = k+per, at+stride {
		if uint(at) >= refs[k].spots {
			return ErrOutOfRange
		}
	}
	for k := 0; k < len(refs); k += per {
		refs[k].sge.Addr = refs[k].base + uint64(offset)
		offset += stride
	}
	return nil
}

// level works out what is even in the batch.
func (b *batch) level() even {
	e := even{known: true, base: b.refs[0].base, spots: b.refs[0].spots}
	for k := b.per; k < len(b.refs); k += b.per {
		if b.refs[k].base != e.base {
			e.spots = 0
		}
		e.spots = min(e.spots, b.refs[k].spots)
	}
	return e
}

// reaches reports whether n offsets, a stride apart, suit whichever request.
func (e even) reaches(n, offset, stride int) bool {
	if uint(offset) >= e.spots || stride < 0 {
		return false
	}
	return n == 1 || uint(stride) <= (e.spots-1-uint(offset))/uint(n-1)
}
