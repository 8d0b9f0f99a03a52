package cenote_test

import (
	"runtime"
	"testing"
	"time"

	"cenote"
)

// eventually collects garbage until something holds, for cleanups run some time after a collection.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 100 {
		runtime.GC()
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error(what)
}

// What nobody closed is freed, and blocks before the pool and the stream they came from.
func TestCollected(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{})
	func() {
		stream, err := cenote.RegisterStream(0, 0, cenote.StreamPersistent)
		ok(t, err)
		for range 100 {
			if _, err := pool.Alloc(1000, stream); err != nil {
				t.Fatal(err)
			}
		}
	}()
	eventually(t, "blocks that nobody refers to stay live", func() bool {
		return stats(t, pool).LiveBlocks == 0
	})
}

func TestCollectedPool(t *testing.T) {
	var id uint64
	func() {
		pool, err := cenote.NewPool(cenote.PoolOptions{})
		ok(t, err)
		id = pool.ID()
		if _, err := pool.Alloc(1000, cenote.DefaultStream); err != nil {
			t.Fatal(err)
		}
	}()
	eventually(t, "a pool that nobody refers to stays", func() bool {
		return cenote.PoolExists(id) == false
	})
}

// A block in use is not collected: a collection at every step of its life.
func TestReachable(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{})
	for range 20 {
		block := alloc(t, pool, 4096)
		runtime.GC()
		if _, err := block.Info(); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		ok(t, block.Pin())
		runtime.GC()
		ok(t, block.Unpin())
		ok(t, block.Close())
	}
	if now := stats(t, pool); now.AllocCount != 20 || now.FreeCount != 20 {
		t.Errorf("stats %+v", now)
	}
}

func TestAdopted(t *testing.T) {
	pool := newPool(t, cenote.PoolOptions{})
	func() {
		addr, err := alloc(t, pool, 1000).Release()
		ok(t, err)
		runtime.GC()
		if now := stats(t, pool); now.LiveBlocks != 1 {
			t.Errorf("stats %+v", now)
		}
		cenote.Adopt(addr, 1000, cenote.DefaultStream)
	}()
	eventually(t, "an adopted block stays live", func() bool {
		return stats(t, pool).LiveBlocks == 0
	})
}
