// The Go part of the one-process test: a C shared library over package cenote.
package main

import "C"

import (
	"unsafe"

	"cenote"
)

// go_alloc gives a block of the default pool away; nil on failure.
//
//export go_alloc
func go_alloc(bytes uint64) unsafe.Pointer {
	pool, err := cenote.DefaultPool(0)
	if err != nil {
		return nil
	}
	block, err := pool.Alloc(bytes, cenote.DefaultStream)
	if err != nil {
		return nil
	}
	addr, _ := block.Release()
	// An address of C's: built as a pointer without the detour that vet warns of.
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// go_free gives the status of a free, whoever allocated.
//
//export go_free
func go_free(addr uintptr) int32 {
	return statusOf(cenote.Free(addr, cenote.DefaultStream))
}

// go_live_blocks are those of the default pool of device 0, as Go sees them.
//
//export go_live_blocks
func go_live_blocks() uint64 {
	pool, err := cenote.DefaultPool(0)
	if err != nil {
		return cenote.Unknown
	}
	stats, err := pool.Stats()
	if err != nil {
		return cenote.Unknown
	}
	return stats.LiveBlocks
}

func statusOf(err error) int32 {
	if failure, is := err.(*cenote.Error); is {
		return int32(failure.Status)
	}
	return 0
}

func main() {}
