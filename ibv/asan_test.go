//go:build asan

package ibv

const asan = true
