package cenote_test

import (
	"errors"
	"fmt"

	"cenote"
)

// A pool with a limit, a block in stream order, and a refusal.
func Example() {
	pool, err := cenote.NewPool(cenote.PoolOptions{LimitBytes: 64 << 20, Name: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	block, err := pool.Alloc(4<<20, cenote.DefaultStream)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer block.Close()
	fmt.Println(block.Size(), "bytes")

	_, err = pool.Alloc(1<<30, cenote.DefaultStream)
	fmt.Println("refused by the limit:", errors.Is(err, cenote.ErrLimit))
	// Output:
	// 4194304 bytes
	// refused by the limit: true
}

// A registered stream: calls that use it ask the driver nothing.
func ExampleRegisterStream() {
	stream, err := cenote.RegisterStream(0, 0, cenote.StreamPersistent)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	pool, err := cenote.DefaultPool(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	block, err := pool.Alloc(1000, stream)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(block.Size(), block.Close())
	// Output: 1000 <nil>
}

// Blocks travel between languages by address.
func ExampleBlock_Release() {
	pool, err := cenote.DefaultPool(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	block, err := pool.Alloc(1000, cenote.DefaultStream)
	if err != nil {
		fmt.Println(err)
		return
	}
	addr, err := block.Release()
	fmt.Println(err)
	fmt.Println(cenote.Free(addr, cenote.DefaultStream)) // or cenote_free in any other language
	// Output:
	// <nil>
	// <nil>
}
