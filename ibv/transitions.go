package ibv

// transition is what the verbs demand and allow for one.
type transition struct{ need, may AttrMask }

// step is a transition of queue pairs of one type.
type step struct {
	typ      QPType
	from, to QPState
}

// transitionOf returns what the transition takes, and whether there is one.
func transitionOf(t QPType, from, to QPState) (transition, bool) {
	if to == QPReset || to == QPErr && from != QPReset {
		return transition{}, true // from everywhere, with nothing
	}
	v, ok := transitions[step{t, from, to}]
	return v, ok
}

// transitions is the table of the verbs, the same as the kernel checks.
var transitions = func() map[step]transition {
	const (
		start = AttrPKeyIndex | AttrPort
		route = AttrAH | AttrPathMTU | AttrDestQPNum | AttrRQPSN
		path  = AttrAltPath | AttrAccess | AttrPathMigState
		sends = AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic
		retry = AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRdAtomic
	)
	t := map[step]transition{
		{UD, QPReset, QPInit}: {need: start | AttrQKey},
		{UD, QPInit, QPInit}:  {may: start | AttrQKey},
		{UD, QPInit, QPRTR}:   {may: AttrPKeyIndex | AttrQKey},
		{UD, QPRTR, QPRTS}:    {need: AttrSQPSN, may: AttrCurState | AttrQKey},
		{UD, QPRTS, QPRTS}:    {may: AttrCurState | AttrQKey},
		{UD, QPSQD, QPRTS}:    {may: AttrCurState | AttrQKey},
		{UD, QPSQD, QPSQD}:    {may: AttrPKeyIndex | AttrQKey},
		{UD, QPSQE, QPRTS}:    {may: AttrCurState | AttrQKey},

		{RawPacket, QPReset, QPInit}: {need: AttrPort},
		{RawPacket, QPInit, QPInit}:  {may: AttrPort},
		{RawPacket, QPInit, QPRTR}:   {},
		{RawPacket, QPRTR, QPRTS}:    {may: AttrRateLimit},
		{RawPacket, QPRTS, QPRTS}:    {may: AttrRateLimit},

		{UC, QPInit, QPRTR}: {need: route, may: AttrAltPath | AttrAccess | AttrPKeyIndex},
		{UC, QPRTR, QPRTS}:  {need: AttrSQPSN, may: AttrCurState | path},
		{UC, QPRTS, QPRTS}:  {may: AttrCurState | path},
		{UC, QPSQD, QPRTS}:  {may: AttrCurState | path},
		{UC, QPSQD, QPSQD}:  {may: AttrAH | path | AttrPKeyIndex},
		{UC, QPSQE, QPRTS}:  {may: AttrCurState | AttrAccess},

		{RC, QPInit, QPRTR}: {need: route | AttrMaxDestRdAtomic | AttrMinRNRTimer, may: AttrAltPath | AttrAccess | AttrPKeyIndex},
		{RC, QPRTR, QPRTS}:  {need: sends, may: AttrCurState | path | AttrMinRNRTimer},
		{RC, QPRTS, QPRTS}:  {may: AttrCurState | path | AttrMinRNRTimer},
		{RC, QPSQD, QPRTS}:  {may: AttrCurState | path | AttrMinRNRTimer},
		{RC, QPSQD, QPSQD}:  {may: AttrPort | AttrAH | retry | AttrMaxDestRdAtomic | path | AttrPKeyIndex | AttrMinRNRTimer},

		{XRCSend, QPInit, QPRTR}: {need: route, may: AttrAltPath | AttrAccess | AttrPKeyIndex},
		{XRCSend, QPRTR, QPRTS}:  {need: sends, may: AttrCurState | path},
		{XRCSend, QPRTS, QPRTS}:  {may: AttrCurState | path},
		{XRCSend, QPSQD, QPRTS}:  {may: AttrCurState | path},
		{XRCSend, QPSQD, QPSQD}:  {may: AttrPort | AttrAH | retry | path | AttrPKeyIndex},

		{XRCRecv, QPInit, QPRTR}: {need: route | AttrMaxDestRdAtomic | AttrMinRNRTimer, may: AttrAltPath | AttrAccess | AttrPKeyIndex},
		{XRCRecv, QPRTR, QPRTS}:  {need: AttrTimeout | AttrSQPSN, may: AttrCurState | path | AttrMinRNRTimer},
		{XRCRecv, QPRTS, QPRTS}:  {may: AttrCurState | path | AttrMinRNRTimer},
		{XRCRecv, QPSQD, QPRTS}:  {may: AttrCurState | path | AttrMinRNRTimer},
		{XRCRecv, QPSQD, QPSQD}: {may: AttrPort | AttrAH | AttrTimeout | AttrMaxDestRdAtomic | path | AttrPKeyIndex |
			AttrMinRNRTimer},
	}
	for _, typ := range []QPType{RC, UC, XRCSend, XRCRecv} {
		t[step{typ, QPReset, QPInit}] = transition{need: start | AttrAccess}
		t[step{typ, QPInit, QPInit}] = transition{may: start | AttrAccess}
	}
	for _, typ := range []QPType{RC, UC, UD, XRCSend, XRCRecv} {
		t[step{typ, QPRTS, QPSQD}] = transition{may: AttrSQDAsyncNotify}
	}
	return t
}()
