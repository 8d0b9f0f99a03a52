"""Blocks: lifetime, misuse, threads."""

import gc
import threading
import weakref

import pytest

import cenote


def test_facts(pool):
    with pool.alloc(1000) as block:
        assert block.ptr % 512 == 0
        assert block.size == block.nbytes == len(block) == 1000
        assert block.info.requested_bytes == 1000
        assert block.info.pool == pool.handle
        assert cenote.block_info(block.ptr + 10).offset_bytes == 10
        assert sum(segment.size_bytes for segment in block.segments) >= 1000
        assert block.pool is pool and bool(block)
    assert block.closed and not block
    assert "closed" in repr(block)


def test_use_after_close(pool):
    block = pool.alloc(10)
    block.close()
    block.free()
    for use in (
        lambda: block.ptr,
        lambda: block.info,
        lambda: block.pin(),
        lambda: block.record_stream(0),
        lambda: block.array(),
        lambda: block.release(),
        lambda: block.__enter__(),
    ):
        with pytest.raises(cenote.ClosedError):
            use()


def test_size_zero(pool):
    block = pool.alloc(0)
    assert block.ptr == 0 and block.size == 0 and not block.closed
    block.free()
    assert block.closed


def test_sizes_as_text(pool):
    assert pool.alloc("1MiB").size == 1 << 20
    with pytest.raises(ValueError):
        pool.alloc("1")
    with pytest.raises(TypeError):
        pool.alloc(1.0)
    with pytest.raises(TypeError):
        pool.alloc(True)
    with pytest.raises(ValueError):
        pool.alloc(-1)
    with pytest.raises(cenote.SizeError):
        pool.alloc(2**64 - 1)


def test_many_sizes(pool):
    for size in range(1, 5000):  # past the table of remembered sizes
        pool.alloc(size).free()
    assert pool.stats.alloc_count == 4999


def test_sizes_above_32_bits(pool):
    with pytest.raises(cenote.OutOfMemoryError) as caught:
        pool.alloc((1 << 44) + 512)
    assert caught.value.wanted_bytes >= 1 << 44


def test_alignment_and_flags(pool):
    with pool.alloc(100, align=65536) as block:
        assert block.ptr % 65536 == 0
    with pytest.raises(cenote.AlignmentError):
        pool.alloc(100, align=3)
    with pytest.raises(ValueError):
        pool.alloc(100, align=-1)
    pool.alloc(100, nowait=True, no_cross_stream=True).free()
    pool.trim()
    with pytest.raises(cenote.WouldGrowError):
        pool.alloc(100, no_grow=True)


def test_collected(pool):
    block = pool.alloc(1000)
    gone = weakref.ref(block)
    del block
    gc.collect()
    assert gone() is None
    assert pool.stats.live_blocks == 0


def test_collected_in_a_cycle(pool):
    class Holder:
        pass

    holder = Holder()
    holder.block, holder.me = pool.alloc(1000), holder
    del holder
    gc.collect()
    assert pool.stats.live_blocks == 0


def test_misuse(pool):
    block = pool.alloc(1000)
    ptr = block.ptr
    with pytest.raises(cenote.InteriorPointerError):
        cenote.free(ptr + 512)
    block.free()
    with pytest.raises(cenote.DoubleFreeError):
        cenote.free(ptr)
    with pytest.raises(cenote.ForeignPointerError):
        cenote.free(id(pool))
    with pytest.raises(TypeError):
        cenote.Block()
    cenote.free(0)


def test_pinned(pool):
    block = pool.alloc(1000)
    block.pin()
    with pytest.raises(cenote.PinnedError):
        block.free()
    assert not block.closed and block.info.pin_count == 1
    block.unpin()
    block.free()


def test_ownership_travels(pool):
    block = pool.alloc(1000)
    ptr = block.release()
    assert block.closed and pool.stats.live_blocks == 1
    adopted = cenote.Block.adopt(ptr, 1000)
    assert adopted.ptr == ptr
    adopted.free()


def test_threads(pool):
    failures = []

    def work(seed):
        try:
            held = []
            for i in range(500):
                held.append(pool.alloc((seed * 7919 + i * 131) % 100_000 + 1))
                if i % 3:
                    held.pop(0).free()
            addresses = {block.ptr for block in held}
            assert len(addresses) == len(held)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert pool.stats.alloc_count == 8 * 500
    del threads
    gc.collect()
