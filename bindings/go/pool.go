package cenote

/*
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Kind is what memory a pool is made of.
type Kind uint32

// AllocFlag narrows what an allocation may do; combine them with |.
type AllocFlag uint32

// Decay and slack that are not left to the library.
const (
	// DecayNever keeps idle pages until a trim.
	DecayNever = time.Duration(-1)
	// SlackChosen lets the library choose, whatever the option says.
	SlackChosen = -1.0
)

// PoolOptions are the settings of a pool. Zero values take the library's defaults.
type PoolOptions struct {
	Kind Kind
	// Device is the index of the device.
	Device int
	// Stable: pages never change their physical memory (NCCL, RDMA).
	Stable bool
	// LimitBytes is the most the pool may hold; 0 for no limit of its own.
	LimitBytes uint64
	// InitialBytes are taken at creation.
	InitialBytes uint64
	// Slack is the share by which held memory may exceed peak live memory, for example 0.01.
	Slack float64
	// Decay is the time after which idle pages go back, rounded to milliseconds.
	Decay time.Duration
	// Name is for reports; at most 31 bytes.
	Name string
}

// PoolStats are the statistics of a pool; a figure that is not known is Unknown.
type PoolStats struct {
	// Untrusted: the device context is lost, and the figures are the last known.
	Untrusted bool

	LiveBytes, UsedBytes, PendingBytes, CachedBytes, HeldBytes, ReservedBytes uint64
	PeakLiveBytes, PeakHeldBytes, LargestFreeBytes                            uint64
	LiveBlocks, AllocCount, FreeCount                                         uint64
	DriverCreateCount, DriverMapCount, DriverAccessCount                      uint64
	DriverUnmapCount, DriverReleaseCount                                      uint64
	DriverTime                                                                time.Duration
	EventRecordCount, EventQueryCount                                         uint64
	RetryCount, OOMCount, DroppedCount, TakeoverCount                         uint64
}

// Pool is a pool of one device. Its blocks keep it from being collected.
type Pool struct {
	*poolState
	cleanup runtime.Cleanup
}

// poolState is what the cleanup and the blocks need, apart from what is watched.
type poolState struct {
	id     uint64
	owned  bool
	closed atomic.Bool
}

// NewPool creates a pool.
func NewPool(options PoolOptions) (*Pool, error) {
	var desc C.cenote_pool_desc
	desc.kind = C.uint32_t(options.Kind)
	desc.device = C.int32_t(options.Device)
	if options.Stable {
		desc.flags = C.uint32_t(PoolStable)
	}
	desc.limit_bytes = C.uint64_t(options.LimitBytes)
	desc.initial_bytes = C.uint64_t(options.InitialBytes)
	slack, decay, err := options.numbers()
	if err != nil {
		return nil, err
	}
	desc.slack_ppm, desc.decay_ms = C.uint32_t(slack), C.uint32_t(decay)
	if !put(desc.name[:], options.Name) {
		return nil, &Error{
			Status: ErrArgument, Message: "the pool's name exceeds 31 bytes or holds a NUL",
		}
	}
	id, err := take(C.cenote_go_pool_create(&desc))
	if err != nil {
		return nil, err
	}
	pool := &Pool{poolState: &poolState{id: id, owned: true}}
	pool.cleanup = runtime.AddCleanup(pool, (*poolState).lost, pool.poolState)
	return pool, nil
}

// numbers turns slack and decay into what the library takes.
func (o PoolOptions) numbers() (slackPPM, decayMS uint32, err error) {
	switch {
	case o.Slack == SlackChosen:
		slackPPM = SlackAuto
	case o.Slack > 0 && o.Slack <= 100:
		slackPPM = max(1, uint32(o.Slack*1e6+0.5))
	case o.Slack != 0:
		return 0, 0, &Error{Status: ErrArgument, Message: "the slack is not a share such as 0.01"}
	}
	switch {
	case o.Decay == DecayNever:
		decayMS = DecayOff
	case o.Decay > 0 && o.Decay < 1000*time.Hour:
		decayMS = max(1, uint32(o.Decay.Milliseconds()))
	case o.Decay != 0:
		return 0, 0, &Error{Status: ErrArgument, Message: "the decay is not a time up to 1000 hours"}
	}
	return slackPPM, decayMS, nil
}

// DefaultPool is the default pool of a device (-1: the current one), never destroyed.
func DefaultPool(device int) (*Pool, error) {
	id, err := take(C.cenote_go_pool_default(C.int32_t(device)))
	if err != nil {
		return nil, err
	}
	return &Pool{poolState: &poolState{id: id}}, nil
}

// destroy gives the memory back, the first time. It stays possible while the pool is busy.
func (s *poolState) destroy() error {
	if !s.owned || s.closed.Swap(true) {
		return nil
	}
	err := check(C.cenote_go_pool_destroy(C.uint64_t(s.id)))
	if err != nil {
		s.closed.Store(false)
	}
	return err
}

// lost destroys a pool that nobody closed. That may wait for the device, so not in the one
// goroutine that runs every cleanup.
func (s *poolState) lost() {
	go func() { _ = s.destroy() }()
}

// ID is the library's id of the pool, the same for every language.
func (p *Pool) ID() uint64 {
	return p.id
}

// Close gives the pool's memory back: ErrPoolBusy with live blocks, and nothing is changed. It does
// nothing to a default pool, or the second time.
func (p *Pool) Close() error {
	err := p.destroy()
	if err == nil && p.owned {
		p.cleanup.Stop()
	}
	keep(p)
	return err
}

// Alloc allocates a block in stream order; 0 bytes give a block without an address.
func (p *Pool) Alloc(bytes uint64, on Stream) (*Block, error) {
	addr, err := take(C.cenote_go_alloc(C.uint64_t(p.id), C.uint64_t(bytes), C.uint64_t(on.handle)))
	if err != nil {
		return nil, err
	}
	return newBlock(addr, bytes, on, p), nil
}

// AllocWith allocates with an alignment (a power of two up to 2 MiB, 0 for the default) and flags.
func (p *Pool) AllocWith(bytes, align uint64, flags AllocFlag, on Stream) (*Block, error) {
	addr, err := take(C.cenote_go_alloc_ex(C.uint64_t(p.id), C.uint64_t(bytes), C.uint64_t(align),
		C.uint32_t(flags), C.uint64_t(on.handle)))
	if err != nil {
		return nil, err
	}
	return newBlock(addr, bytes, on, p), nil
}

// Trim gives idle memory back until at most keepBytes are held.
func (p *Pool) Trim(keepBytes uint64) (TrimResult, error) {
	var c C.cenote_trim_result
	err := check(C.cenote_go_pool_trim(C.uint64_t(p.id), C.uint64_t(keepBytes), &c))
	keep(p)
	return trimResult(&c), err
}

// ResetPeaks sets the peaks to the current values.
func (p *Pool) ResetPeaks() error {
	err := check(C.cenote_go_pool_reset_peaks(C.uint64_t(p.id)))
	keep(p)
	return err
}

// Stats gives the statistics of now.
func (p *Pool) Stats() (PoolStats, error) {
	var c C.cenote_pool_stats_t
	err := check(C.cenote_go_pool_stats(C.uint64_t(p.id), &c))
	keep(p)
	if err != nil {
		return PoolStats{}, err
	}
	return PoolStats{
		Untrusted:          c.untrusted != 0,
		LiveBytes:          uint64(c.live_bytes),
		UsedBytes:          uint64(c.used_bytes),
		PendingBytes:       uint64(c.pending_bytes),
		CachedBytes:        uint64(c.cached_bytes),
		HeldBytes:          uint64(c.held_bytes),
		ReservedBytes:      uint64(c.reserved_bytes),
		PeakLiveBytes:      uint64(c.peak_live_bytes),
		PeakHeldBytes:      uint64(c.peak_held_bytes),
		LargestFreeBytes:   uint64(c.largest_free_bytes),
		LiveBlocks:         uint64(c.live_blocks),
		AllocCount:         uint64(c.alloc_count),
		FreeCount:          uint64(c.free_count),
		DriverCreateCount:  uint64(c.driver_create_count),
		DriverMapCount:     uint64(c.driver_map_count),
		DriverAccessCount:  uint64(c.driver_access_count),
		DriverUnmapCount:   uint64(c.driver_unmap_count),
		DriverReleaseCount: uint64(c.driver_release_count),
		DriverTime:         time.Duration(c.driver_time_ns),
		EventRecordCount:   uint64(c.event_record_count),
		EventQueryCount:    uint64(c.event_query_count),
		RetryCount:         uint64(c.retry_count),
		OOMCount:           uint64(c.oom_count),
		DroppedCount:       uint64(c.dropped_count),
		TakeoverCount:      uint64(c.takeover_count),
	}, nil
}
