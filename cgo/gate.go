package cgo

// gateWidth bounds how many goroutines sit in a control call at once. Such
// calls can block in the kernel (a destroy, a large registration), each on an
// OS thread of its own; without a bound, ten thousand Closes are ten thousand
// threads.
const gateWidth = 16

var gate = make(chan struct{}, gateWidth)

// enter waits for a place in the gate; leave gives it back. Calls that create,
// destroy, register, modify or connect pass it. The fast path, queries of
// memory and calls that fetch events never block and do not.
func enter() { gate <- struct{}{} }

func leave() { <-gate }
