//go:build cenote_link

package cenote

// Links the library instead of opening it at run time.

/*
#cgo CFLAGS: -DCENOTE_GO_LINK
#cgo LDFLAGS: -lcenote
*/
import "C"
