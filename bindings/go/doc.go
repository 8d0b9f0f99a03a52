// Package cenote is one GPU memory manager for every language in a process: stream-ordered pools
// behind a stable C ABI, shared with the C++, Python and Rust code of the same process.
//
//	pool, err := cenote.NewPool(cenote.PoolOptions{LimitBytes: 8 << 30})
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//	block, err := pool.Alloc(16<<20, cenote.DefaultStream)
//	if errors.Is(err, cenote.ErrOutOfMemory) { … }
//	defer block.Close()
//
// # The library
//
// Building needs no installed library: it is opened at the first call (a libcenote.so.0 that the
// process has already, else the file named by CENOTE_LIBRARY, else the dynamic linker's search).
// Without one every call gives ErrNoLibrary; Load tells beforehand. The build tag cenote_link links
// it instead.
//
// # Lifetime
//
// Close frees. What is not closed is freed some time after it became unreachable; that is a safety
// net, and device memory is too scarce to rely on it. A block keeps its pool and its stream from
// being collected before it. Close may be called again and then does nothing.
//
// # Threads
//
// Everything may be used from any goroutine, and goroutines may change threads: no call depends on
// the thread it runs on, and the details of a failure are fetched within the call that failed. The
// exception is PerThreadStream, which names the stream of the thread of the moment: use it only
// after runtime.LockOSThread.
//
// # Addresses
//
// Addr is a device address, a number that only device code and other libraries may follow. Bytes
// gives the memory itself where the CPU can use it. No memory of Go's is ever kept by C.
package cenote
