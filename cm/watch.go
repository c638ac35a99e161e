package cm

import "context"

// Watch tells of changes on which a Decision rests: links, addresses, routes,
// rules, nexthop objects and RDMA devices of the network namespace that h was
// opened in. A value in the channel says that something has changed since the
// last one was taken; ask again to learn what. It counts from Watch's return on,
// and goes on after h is closed.
//
// The kernel tells of no GID table, and fills it a moment after it tells of the
// address: a program that wants the last word asks once more a second later.
//
// The channel is closed when ctx ends, or, where ctx has not, because the kernel
// tells no more. Watch needs no privilege, unless the calling thread has left
// h's namespace (CAP_SYS_ADMIN).
func (h *Host) Watch(ctx context.Context) (<-chan struct{}, error) {
	return ask(h, func(o *host) (<-chan struct{}, error) { return o.Watch(ctx) })
}
