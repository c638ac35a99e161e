package ibv

import "fmt"

// limitOf is what was asked of a device, and what it can do.
type limitOf struct {
	field     string
	asked, on int
}

// beyond names what was asked beyond the device's limits, or is def.
func beyond(def string, limits ...limitOf) string {
	s := ""
	for _, l := range limits {
		if l.asked > l.on {
			if s != "" {
				s += "; "
			}
			s += fmt.Sprintf("%s is %d, the device does %d", l.field, l.asked, l.on)
		}
	}
	return or(s, def)
}

// beyond names attributes of a queue pair that are over what its device, or the
// port, has; "" for none.
func (q *QP) beyond(a *QPAttr, mask AttrMask) string {
	lim, err := q.pd.ctx.known()
	if err != nil {
		return ""
	}
	var l []limitOf
	if mask&AttrMaxRdAtomic != 0 {
		l = append(l, limitOf{"MaxRdAtomic", a.MaxRdAtomic, lim.dev.MaxQPInitReadAtomic})
	}
	if mask&AttrMaxDestRdAtomic != 0 {
		l = append(l, limitOf{"MaxDestRdAtomic", a.MaxDestRdAtomic, lim.dev.MaxQPReadAtomic})
	}
	if mask&AttrPort != 0 {
		l = append(l, limitOf{"Port", int(a.Port), int(lim.dev.PhysPortCount)})
	}
	if p, err := q.pd.ctx.QueryPort(a.Port); err == nil && mask&AttrPKeyIndex != 0 {
		l = append(l, limitOf{"PKeyIndex", int(a.PKeyIndex), p.PKeyTableLen - 1})
	}
	s := beyond("", l...)
	if mask&AttrAH != 0 {
		s = or(s, q.pd.ctx.beyondAH(&a.AH))
	}
	return s
}

// beyondAH does the same for a destination.
func (c *Context) beyondAH(a *AHAttr) string {
	lim, err := c.known()
	if err != nil {
		return ""
	}
	l := []limitOf{{"Port", int(a.Port), int(lim.dev.PhysPortCount)}}
	if p, err := c.QueryPort(a.Port); err == nil && a.Global {
		l = append(l, limitOf{"SGIDIndex", a.SGIDIndex, p.GIDTableLen - 1})
	}
	return beyond("", l...)
}
