package cenote_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"cenote"
)

func newPool(t *testing.T, options cenote.PoolOptions) *cenote.Pool {
	t.Helper()
	pool, err := cenote.NewPool(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("the test left the pool busy: %v", err)
		}
	})
	return pool
}

func alloc(t *testing.T, pool *cenote.Pool, bytes uint64) *cenote.Block {
	t.Helper()
	block, err := pool.Alloc(bytes, cenote.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	return block
}

func stats(t *testing.T, pool *cenote.Pool) cenote.PoolStats {
	t.Helper()
	found, err := pool.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func want(t *testing.T, err, status error) {
	t.Helper()
	if !errors.Is(err, status) {
		t.Errorf("want %v, got %v", status, err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestLibrary(t *testing.T) {
	ok(t, cenote.Load())
	if strings.Count(cenote.Version(), ".") != 2 {
		t.Errorf("version %q", cenote.Version())
	}
	info, err := cenote.Info()
	ok(t, err)
	if info.ABIVersion != cenote.ABIVersion || info.DeviceCount < 1 {
		t.Errorf("info %+v", info)
	}
	options, err := cenote.Options()
	ok(t, err)
	if len(options) == 0 || options[0].Name == "" {
		t.Errorf("options %+v", options)
	}
	device, err := cenote.Device(0)
	ok(t, err)
	if device.TotalBytes == 0 || device.Name == "" {
		t.Errorf("device %+v", device)
	}
	_, err = cenote.Device(999)
	want(t, err, cenote.ErrDevice)
	// Another test may have created a pool before this one.
	if err := cenote.Configure("no_such_option", "1"); !errors.Is(err, cenote.ErrConfigured) {
		want(t, err, cenote.ErrOption)
	}
	ok(t, cenote.Poll())
}

func TestBlocks(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{Name: "go test"})
	block := alloc(t, pool, 1000)
	if block.Addr()%512 != 0 || block.Size() != 1000 {
		t.Errorf("block %#x of %d", block.Addr(), block.Size())
	}
	info, err := block.Info()
	ok(t, err)
	if info.RequestedBytes != 1000 || info.Pool != pool.ID() {
		t.Errorf("info %+v", info)
	}
	segments, err := block.Segments()
	ok(t, err)
	if len(segments) != info.SegmentCount {
		t.Errorf("segments %+v", segments)
	}
	inside, err := cenote.FindBlock(block.Addr() + 10)
	ok(t, err)
	if inside.OffsetBytes != 10 {
		t.Errorf("offset %d", inside.OffsetBytes)
	}
	if now := stats(t, pool); now.LiveBytes != 1000 || now.LiveBlocks != 1 {
		t.Errorf("stats %+v", now)
	}
	ok(t, block.Close())
	ok(t, block.Close())
	if now := stats(t, pool); now.LiveBytes != 0 || now.PeakLiveBytes != 1000 {
		t.Errorf("stats %+v", now)
	}
	_, err = block.Info()
	want(t, err, cenote.ErrDoubleFree)
	empty := alloc(t, pool, 0)
	if empty.Addr() != 0 {
		t.Errorf("0 bytes at %#x", empty.Addr())
	}
	ok(t, empty.Close())
}

func TestBytes(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{})
	block := alloc(t, pool, 4096)
	defer block.Close()
	memory, err := block.Bytes()
	if errors.Is(err, cenote.ErrNotSupported) {
		t.Skip("the CPU cannot use this device's memory")
	}
	ok(t, err)
	for i := range memory {
		memory[i] = byte(i)
	}
	if len(memory) != 4096 || memory[4095] != 255 {
		t.Errorf("%d bytes, last %d", len(memory), memory[len(memory)-1])
	}
}

func TestFailures(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{LimitBytes: 4 << 20})
	_, err := pool.Alloc(64<<20, cenote.DefaultStream)
	want(t, err, cenote.ErrLimit)
	want(t, err, cenote.ErrOutOfMemory)
	var details *cenote.Error
	if !errors.As(err, &details) || details.WantedBytes < 64<<20 || details.Message == "" {
		t.Errorf("details %+v", details)
	}
	if details != nil && details.Status.Name() != "CENOTE_E_LIMIT" {
		t.Errorf("name %s", details.Status.Name())
	}
	_, err = pool.AllocWith(100, 3, 0, cenote.DefaultStream)
	want(t, err, cenote.ErrAlignment)
	if errors.Is(err, cenote.ErrOutOfMemory) {
		t.Error("an alignment is no lack of memory")
	}
	_, err = pool.AllocWith(100, 0, 0x8000, cenote.DefaultStream)
	want(t, err, cenote.ErrFlags)
	local := 0
	ours := uintptr(unsafe.Pointer(&local))
	want(t, cenote.Free(ours, cenote.DefaultStream), cenote.ErrForeignPointer)
	block := alloc(t, pool, 1000)
	want(t, cenote.Free(block.Addr()+512, cenote.DefaultStream), cenote.ErrInteriorPointer)
	addr, err := block.Release()
	ok(t, err)
	ok(t, cenote.Free(addr, cenote.DefaultStream))
	want(t, cenote.Free(addr, cenote.DefaultStream), cenote.ErrDoubleFree)
	_, err = block.Release()
	want(t, err, cenote.ErrDoubleFree)
}

func TestPoolOptions(t *testing.T) {
	for _, bad := range []cenote.PoolOptions{
		{Name: strings.Repeat("n", 32)}, {Name: "a\x00b"}, {Slack: -0.5}, {Decay: -5}, {Kind: 99},
	} {
		_, err := cenote.NewPool(bad)
		want(t, err, cenote.ErrArgument)
	}
	_, err := cenote.NewPool(cenote.PoolOptions{Device: 999})
	want(t, err, cenote.ErrDevice)
	newPool(t, cenote.PoolOptions{
		Slack: 0.01, Decay: time.Second, Stable: true, Kind: cenote.KindHost,
	})
	newPool(t, cenote.PoolOptions{Slack: cenote.SlackChosen, Decay: cenote.DecayNever})
}

func TestPoolClose(t *testing.T) {
	pool, err := cenote.NewPool(cenote.PoolOptions{})
	ok(t, err)
	block := alloc(t, pool, 5<<20)
	want(t, pool.Close(), cenote.ErrPoolBusy)
	ok(t, block.Close())
	trimmed, err := pool.Trim(0)
	ok(t, err)
	if trimmed.ReturnedBytes == 0 || stats(t, pool).HeldBytes != 0 {
		t.Errorf("trimmed %+v", trimmed)
	}
	ok(t, pool.ResetPeaks())
	ok(t, pool.Close())
	ok(t, pool.Close())
	_, err = pool.Stats()
	want(t, err, cenote.ErrHandle)
	byDefault, err := cenote.DefaultPool(0)
	ok(t, err)
	ok(t, byDefault.Close())
	_, err = byDefault.Stats()
	ok(t, err)
	_, err = cenote.EmptyCache(-1)
	ok(t, err)
}

func TestPins(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{})
	block := alloc(t, pool, 1000)
	ok(t, block.Pin())
	want(t, block.Close(), cenote.ErrPinned)
	ok(t, block.Unpin())
	ok(t, block.RecordStream(cenote.PerThreadStream))
	ok(t, block.Close())
	want(t, block.Pin(), cenote.ErrDoubleFree)
}

func TestStreams(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{})
	stream, err := cenote.RegisterStream(0, 0, cenote.StreamPersistent)
	ok(t, err)
	block, err := pool.Alloc(1000, stream)
	ok(t, err)
	ok(t, block.Close())
	ok(t, stream.Close())
	ok(t, stream.Close())
	_, err = pool.Alloc(1000, stream)
	want(t, err, cenote.ErrStream)
	_, err = cenote.RegisterStream(0, 0, 0x8000)
	want(t, err, cenote.ErrFlags)
	told, err := cenote.RegisterStream(0, 0, cenote.StreamCaptureTold)
	ok(t, err)
	ok(t, told.CaptureBegin())
	graph, err := told.CaptureEnd()
	ok(t, err)
	ok(t, cenote.ReleaseGraph(graph))
	want(t, cenote.ReleaseGraph(987654321), cenote.ErrGraph)
	ok(t, told.Close())
}

// C37: goroutines that are moved between threads, on every device.
func TestC37Goroutines(t *testing.T) {
	devices, err := cenote.DeviceCount()
	ok(t, err)
	pools := make([]*cenote.Pool, devices)
	for i := range pools {
		pools[i] = newPool(t, cenote.PoolOptions{Device: i})
	}
	var running sync.WaitGroup
	for g := range 64 {
		running.Add(1)
		go func() {
			defer running.Done()
			pool := pools[g%devices]
			for i := range 1000 {
				block, err := pool.Alloc(uint64(i*97+g+1), cenote.DefaultStream)
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				if err := block.Close(); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	running.Wait()
	for _, pool := range pools {
		if now := stats(t, pool); now.LiveBlocks != 0 || now.AllocCount != now.FreeCount {
			t.Errorf("stats %+v", now)
		}
	}
}

// The details of a failure are those of the call that failed, whatever other goroutines do.
func TestFailuresOfGoroutines(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{LimitBytes: 1 << 20})
	var running sync.WaitGroup
	for g := range 32 {
		running.Add(1)
		go func() {
			defer running.Done()
			wanted := uint64(g+8) << 20
			for range 200 {
				_, err := pool.Alloc(wanted, cenote.DefaultStream)
				var details *cenote.Error
				if !errors.As(err, &details) || details.WantedBytes != wanted {
					t.Errorf("wanted %d, details %+v", wanted, details)
					return
				}
			}
		}()
	}
	running.Wait()
}
