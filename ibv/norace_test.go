//go:build !race

package ibv

// raced tells whether the tests run under the race detector, which the emulator
// makes ten times slower still.
const raced = false
