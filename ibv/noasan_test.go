//go:build !asan

package ibv

// asan tells whether the tests run under the address sanitizer, where parts of
// the standard library allocate that otherwise do not.
const asan = false
