"""Pools: settings, statistics, closing."""

import gc

import pytest

import cenote


def test_statistics_follow(pool):
    block = pool.alloc(1000)
    stats = pool.stats
    assert (stats.live_bytes, stats.live_blocks, stats.alloc_count) == (1000, 1, 1)
    assert stats.held_bytes >= stats.used_bytes >= 1000
    block.free()
    assert pool.stats.live_bytes == 0 and pool.stats.free_count == 1
    assert pool.stats.peak_live_bytes == 1000
    pool.reset_peaks()
    assert pool.stats.peak_live_bytes == 0


def test_trim_gives_everything_back(pool):
    pool.alloc("5MiB").free()
    result = pool.trim()
    assert result.returned_bytes > 0 and result.pending_bytes == 0
    assert pool.stats.held_bytes == 0
    assert cenote.empty_cache().kept_bytes >= 0


def test_limit():
    with cenote.Pool(limit="4MiB") as pool:
        with pytest.raises(cenote.LimitError) as caught:
            pool.alloc("64MiB")
        assert isinstance(caught.value, (cenote.OutOfMemoryError, MemoryError))
        assert caught.value.name == "CENOTE_E_LIMIT"
        assert caught.value.wanted_bytes >= 64 << 20
        assert str(caught.value)
        assert pool.stats.oom_count == 1
        pool.alloc("1MiB").free()


def test_share_of_the_device():
    total = cenote.device_info(0).total_bytes
    with cenote.Pool(limit="50%") as pool:
        with pytest.raises(cenote.OutOfMemoryError):
            pool.alloc(total * 3 // 4)


def test_busy():
    pool = cenote.Pool()
    block = pool.alloc(1)
    with pytest.raises(cenote.PoolBusyError):
        pool.close()
    assert pool.stats.live_blocks == 1
    block.free()
    pool.close()
    pool.close()
    with pytest.raises(cenote.HandleError):
        pool.stats
    with pytest.raises(cenote.HandleError):
        pool.alloc(1)


def test_the_first_exception_wins():
    with pytest.raises(KeyError):
        with cenote.Pool() as pool:
            block = pool.alloc(1)
            raise KeyError
    block.free()


def test_collected_pools_are_destroyed():
    handle = cenote.Pool().handle
    gc.collect()
    stale = cenote.Pool.__new__(cenote.Pool)
    stale._bind(handle, owned=False)
    with pytest.raises(cenote.HandleError):
        stale.stats


def test_default_pool():
    pool = cenote.default_pool(0)
    assert cenote.default_pool(0).handle == pool.handle
    before = pool.stats.live_blocks
    block = cenote.alloc(100, device=0)
    assert pool.stats.live_blocks == before + 1
    block.free()
    pool.close()  # never destroyed
    assert pool.stats.live_blocks == before


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "tape"},
        {"limit": "8"},
        {"limit": 0},
        {"limit": "0.5"},
        {"slack": "much"},
        {"slack": 0},
        {"decay": -1},
        {"decay": True},
        {"name": "n" * 32},
        {"name": "a\0b"},
    ],
)
def test_settings_refused(settings):
    with pytest.raises(ValueError):
        cenote.Pool(**settings)


def test_settings_accepted():
    with cenote.Pool(slack=0.01, decay=1.5, stable=True, name="n" * 31) as pool:
        pool.alloc(1).free()
    with cenote.Pool(slack="auto", decay=False, kind="host", limit="1GiB") as pool:
        pool.alloc(1).free()


def test_no_such_device():
    with pytest.raises(cenote.NoSuchDeviceError):
        cenote.Pool(device=999)
    with pytest.raises(cenote.NoSuchDeviceError):
        cenote.device_info(999)
