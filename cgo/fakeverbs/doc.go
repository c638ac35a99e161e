// Package fakeverbs is a verbs provider without a device: it writes a 64-byte
// request and a 64-byte completion in memory, as the driver and the hardware of
// a NIC would, and fails on command. It serves the benchmarks of the binding,
// beside the same loops in C, and unit tests of what a device seldom does. It
// moves no data.
package fakeverbs
