//go:build linux && cgo

package cgo

/*
#include "rb_fast.h"
#include "rb_srq.h"
#include "rb_cq.h"

// No pointer that Go passes to these is kept, and none calls back: without
// both lines each call would allocate its argument on the heap.
#cgo noescape rb_post_send
#cgo nocallback rb_post_send
#cgo noescape rb_post_recv
#cgo nocallback rb_post_recv
#cgo noescape rb_poll
#cgo nocallback rb_poll
#cgo noescape rb_poll_arm
#cgo nocallback rb_poll_arm
#cgo noescape rb_poll_spin
#cgo nocallback rb_poll_spin
#cgo noescape rb_run_start
#cgo nocallback rb_run_start
#cgo noescape rb_run_step
#cgo nocallback rb_run_step
#cgo noescape rb_post_poll_send
#cgo nocallback rb_post_poll_send
#cgo noescape rb_post_poll_recv
#cgo nocallback rb_post_poll_recv
#cgo noescape rb_channel_events
#cgo nocallback rb_channel_events
#cgo noescape rb_poll_ex
#cgo nocallback rb_poll_ex
#cgo noescape rb_post_srq
#cgo nocallback rb_post_srq
#cgo noescape rb_post_poll_srq
#cgo nocallback rb_post_poll_srq
*/
import "C"
