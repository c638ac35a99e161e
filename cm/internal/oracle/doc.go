// Package oracle holds the prediction against the truth. From a seed it draws
// hosts (addresses, routes, rules, VRFs, links) and calls on them, sets each
// host up in the kernel, lets railbind decide each call, then makes the same
// calls on a raw id of librdmacm with no policy between, and compares.
//
// What the policy ought to have said is judged here by rules of the design,
// written down a second time and without package policy's code, from three
// witnesses: what the raw id did, what an ordinary UDP socket does on the same
// host, and what the drawn host looks like.
package oracle
