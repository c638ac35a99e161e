//go:build race || asan

package churn

// Memory is the detector's, which keeps what was freed.
const instrumented = true
