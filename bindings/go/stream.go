package cenote

/*
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
)

// Promise is what a caller promises about a stream it registers.
type Promise uint32

// Stream names a stream: raw or registered. It is a small value; copies of a registered stream name
// the same registration.
type Stream struct {
	handle       uint64
	registration *registration
}

// registration is retired once: by Close, or when nothing refers to it any more.
type registration struct {
	*retirement
	cleanup runtime.Cleanup
}

// retirement is what the cleanup needs, apart from what it watches.
type retirement struct {
	handle  uint64
	retired atomic.Bool
}

// DefaultStream is the legacy default stream.
var DefaultStream = Stream{}

// PerThreadStream is the default stream of the thread that runs the call: lock the goroutine to its
// thread (runtime.LockOSThread) for as long as the stream is meant.
var PerThreadStream = Stream{handle: 2}

// RawStream names a CUstream by its handle. The stream must live whenever the value is used.
func RawStream(handle uintptr) Stream {
	return Stream{handle: uint64(handle)}
}

// RegisterStream registers a raw stream of a device, so that later calls ask the driver nothing.
// Close it before the raw stream is destroyed, and the blocks on it before.
func RegisterStream(device int, raw uintptr, promises Promise) (Stream, error) {
	handle, err := take(C.cenote_go_stream_register(
		C.int32_t(device), C.uint64_t(raw), C.uint32_t(promises)))
	if err != nil {
		return Stream{}, err
	}
	made := &registration{retirement: &retirement{handle: handle}}
	made.cleanup = runtime.AddCleanup(made, (*retirement).lost, made.retirement)
	return Stream{handle, made}, nil
}

// retire ends the registration, the first time.
func (r *retirement) retire() error {
	if r.retired.Swap(true) {
		return nil
	}
	return check(C.cenote_go_stream_retire(C.uint64_t(r.handle)))
}

// lost retires a stream that nobody closed. There is nobody to tell of a failure.
func (r *retirement) lost() {
	_ = r.retire()
}

// Handle is what the library takes: a CUstream or a registered value.
func (s Stream) Handle() uint64 {
	return s.handle
}

// Close ends a registration; it does nothing to a raw stream, or the second time.
func (s Stream) Close() error {
	if s.registration == nil {
		return nil
	}
	s.registration.cleanup.Stop()
	err := s.registration.retire()
	keep(s.registration)
	return err
}

// CaptureBegin tells that a capture of the stream begins; it must have promised StreamCaptureTold.
func (s Stream) CaptureBegin() error {
	err := check(C.cenote_go_capture_begin(C.uint64_t(s.handle)))
	keep(s.registration)
	return err
}

// CaptureEnd tells that the capture has ended; the id is for ReleaseGraph.
func (s Stream) CaptureEnd() (graph uint64, err error) {
	graph, err = take(C.cenote_go_capture_end(C.uint64_t(s.handle)))
	keep(s.registration)
	return graph, err
}

// ReleaseGraph releases the private memory of a told capture, once its graph is destroyed.
func ReleaseGraph(graph uint64) error {
	return check(C.cenote_go_graph_release(C.uint64_t(graph)))
}
