//go:build !cenote_link

package cenote_test

const linked = false
