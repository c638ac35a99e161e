//go:build !race && !asan

package churn

const instrumented = false
