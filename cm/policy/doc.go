// Package policy decides, before the kernel is asked, which RDMA device and
// network device a connection will use, and refuses where the promise cannot
// be kept.
//
// The promise: an id that is bound to a device keeps that device, whatever the
// routing table says. The kernel keeps it for IPv4, treats the bound network
// device as a mere preference for IPv6, and ignores a second source address
// silently. So the policy replays the kernel's route look-ups, compares, and
// gives a [Decision]: a value that a program can log and a tool can print.
//
// The package is pure Go: what it needs to know about the machine it asks
// through [Host], which package cm implements over netlink and verbs and tests
// implement over tables. All types are plain values. The functions keep no
// state and may be called concurrently as far as the Host allows it.
package policy
