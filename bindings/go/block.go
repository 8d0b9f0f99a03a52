package cenote

/*
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Block is memory of a pool. Close frees it in stream order.
type Block struct {
	*blockState
	cleanup runtime.Cleanup
}

// blockState is what the cleanup needs. It holds the pool and the stream, so that neither is
// destroyed by a cleanup before the block is freed; it may not hold the block, which would then
// live for ever.
type blockState struct {
	addr   uint64
	bytes  uint64
	stream Stream
	pool   *Pool
	closed atomic.Bool
}

// BlockInfo gives the facts of a live block.
type BlockInfo struct {
	Kind             Kind
	Device           int
	PinCount         int
	Pool             uint64
	Base             uint64
	OffsetBytes      uint64
	RequestedBytes   uint64
	UsableBytes      uint64
	HostVisible      bool
	ReservationBase  uint64
	ReservationBytes uint64
	SegmentCount     int
	Captured         bool
}

// Segment is one physical handle under a block; Handle is 0 where the backend has none.
type Segment struct {
	Base, SizeBytes, Handle uint64
}

func newBlock(addr, bytes uint64, on Stream, pool *Pool) *Block {
	block := &Block{blockState: &blockState{addr: addr, bytes: bytes, stream: on, pool: pool}}
	block.cleanup = runtime.AddCleanup(block, (*blockState).lost, block.blockState)
	return block
}

// Adopt owns a block that another part of the program, or another language, allocated.
func Adopt(addr uintptr, bytes uint64, on Stream) *Block {
	return newBlock(uint64(addr), bytes, on, nil)
}

// Free frees a block by its address, whichever language allocated it.
func Free(addr uintptr, on Stream) error {
	err := check(C.cenote_go_free(C.uint64_t(addr), C.uint64_t(on.handle)))
	keep(on.registration)
	return err
}

// FindBlock gives the facts of the live block that contains an address.
func FindBlock(addr uintptr) (BlockInfo, error) {
	info, _, err := findBlock(uint64(addr))
	return info, err
}

func findBlock(addr uint64) (BlockInfo, unsafe.Pointer, error) {
	var c C.cenote_block_info_t
	if err := check(C.cenote_go_block_info(C.uint64_t(addr), &c)); err != nil {
		return BlockInfo{}, nil, err
	}
	return BlockInfo{
		Kind:             Kind(c.kind),
		Device:           int(c.device),
		PinCount:         int(c.pin_count),
		Pool:             uint64(c.pool),
		Base:             uint64(c.base),
		OffsetBytes:      uint64(c.offset_bytes),
		RequestedBytes:   uint64(c.requested_bytes),
		UsableBytes:      uint64(c.usable_bytes),
		HostVisible:      c.host_ptr != nil,
		ReservationBase:  uint64(c.reservation_base),
		ReservationBytes: uint64(c.reservation_bytes),
		SegmentCount:     int(c.segment_count),
		Captured:         c.captured != 0,
	}, c.host_ptr, nil
}

// free frees once, however many goroutines try; a refused free leaves the block as it was.
func (s *blockState) free(on Stream) error {
	if s.closed.Swap(true) {
		return nil
	}
	err := Free(uintptr(s.addr), on)
	if err != nil {
		s.closed.Store(false)
	}
	return err
}

// lost frees a block that nobody closed. There is nobody to tell of a failure.
func (s *blockState) lost() {
	_ = s.free(s.stream)
}

// live tells whether the block may still be used.
func (s *blockState) live() error {
	if s.closed.Load() {
		return &Error{Status: ErrDoubleFree, Message: "the block is closed"}
	}
	return nil
}

// Addr is the address; 0 after Close and for a block of 0 bytes.
func (b *Block) Addr() uintptr {
	if b.closed.Load() {
		return 0
	}
	return uintptr(b.addr)
}

// Size is the number of bytes asked for.
func (b *Block) Size() uint64 {
	return b.bytes
}

// Close frees the block on its stream; the second time it does nothing.
func (b *Block) Close() error {
	return b.CloseOn(b.stream)
}

// CloseOn frees the block on another stream: the one of its last use.
func (b *Block) CloseOn(on Stream) error {
	err := b.free(on)
	if err == nil {
		b.cleanup.Stop()
	}
	keep(b)
	return err
}

// Release gives the block away: whoever takes the address frees it, in whatever language.
func (b *Block) Release() (uintptr, error) {
	if b.closed.Swap(true) {
		return 0, &Error{Status: ErrDoubleFree, Message: "the block is closed"}
	}
	b.cleanup.Stop()
	return uintptr(b.addr), nil
}

// Bytes is the memory itself, where the CPU can use it (else ErrNotSupported). The slice is valid
// while the block is open: keep the block reachable for as long as the slice is used.
func (b *Block) Bytes() ([]byte, error) {
	if err := b.live(); err != nil || b.bytes == 0 {
		return nil, err
	}
	_, host, err := findBlock(b.addr)
	keep(b)
	if err != nil {
		return nil, err
	}
	if host == nil {
		return nil, &Error{Status: ErrNotSupported, Message: "the CPU cannot use this block"}
	}
	return unsafe.Slice((*byte)(host), b.bytes), nil
}

// Info gives the facts of the block.
func (b *Block) Info() (BlockInfo, error) {
	if err := b.live(); err != nil {
		return BlockInfo{}, err
	}
	info, _, err := findBlock(b.addr)
	keep(b)
	return info, err
}

// Segments are the physical handles under the block, in address order.
func (b *Block) Segments() ([]Segment, error) {
	info, err := b.Info()
	if err != nil || info.SegmentCount == 0 {
		return nil, err
	}
	c := make([]C.cenote_segment_t, info.SegmentCount)
	count, err := take(C.cenote_go_block_segments(C.uint64_t(b.addr), &c[0], C.uint32_t(len(c))))
	keep(b)
	if err != nil {
		return nil, err
	}
	found := make([]Segment, min(int(count), len(c)))
	for i := range found {
		found[i] = Segment{uint64(c[i].base), uint64(c[i].size_bytes), uint64(c[i].handle)}
	}
	return found, nil
}

// Pin bars the block from being freed, and its pages from moving, until unpinned as often.
func (b *Block) Pin() error {
	return b.pin(1)
}

// Unpin undoes one Pin.
func (b *Block) Unpin() error {
	return b.pin(0)
}

func (b *Block) pin(on C.int) error {
	if err := b.live(); err != nil {
		return err
	}
	err := check(C.cenote_go_block_pin(C.uint64_t(b.addr), on))
	keep(b)
	return err
}

// RecordStream says that the block is used on another stream too, until it is freed or UseEnd.
func (b *Block) RecordStream(on Stream) error {
	return b.use(on, 1)
}

// UseEnd says that a recorded use has ended.
func (b *Block) UseEnd(on Stream) error {
	return b.use(on, 0)
}

func (b *Block) use(on Stream, begin C.int) error {
	if err := b.live(); err != nil {
		return err
	}
	err := check(C.cenote_go_block_use(C.uint64_t(b.addr), C.uint64_t(on.handle), begin))
	keep(b)
	keep(on.registration)
	return err
}
