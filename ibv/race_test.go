//go:build race

package ibv

const raced = true
