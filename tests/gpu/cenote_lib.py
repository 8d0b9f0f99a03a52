"""The little of cenote's C ABI that the PyTorch tests call, through ctypes."""

import ctypes
import os
import pathlib

STATS_FIELDS = (
    "live used pending cached held reserved peak_live peak_held largest_free".split()
)
STATS_COUNTS = (
    "live_blocks alloc_count free_count driver_create_count driver_map_count "
    "driver_access_count driver_unmap_count driver_release_count driver_time_ns "
    "event_record_count event_query_count retry_count oom_count dropped_count takeover_count"
).split()


class PoolStats(ctypes.Structure):
    """cenote_pool_stats_t."""

    _fields_ = (
        [("struct_size", ctypes.c_uint32), ("zero", ctypes.c_uint32)]
        + [(f"{name}_bytes", ctypes.c_uint64) for name in STATS_FIELDS]
        + [(name, ctypes.c_uint64) for name in STATS_COUNTS]
    )


class TrimResult(ctypes.Structure):
    """cenote_trim_result."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("zero", ctypes.c_uint32),
        ("returned_bytes", ctypes.c_uint64),
        ("pending_bytes", ctypes.c_uint64),
        ("kept_bytes", ctypes.c_uint64),
    ]


def library_path() -> str:
    """The library under test: CENOTE_LIBRARY, else dist/gpu of this checkout."""
    root = pathlib.Path(__file__).resolve().parents[2]
    return os.environ.get("CENOTE_LIBRARY") or str(root / "dist" / "gpu" / "libcenote.so.0")


class Cenote:
    """The loaded library."""

    def __init__(self) -> None:
        self.path = library_path()
        self.lib = ctypes.CDLL(self.path, mode=ctypes.RTLD_GLOBAL)
        self.lib.cenote_status_name.restype = ctypes.c_char_p
        self.lib.cenote_pool_stats.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        self.lib.cenote_empty_cache.argtypes = [ctypes.c_int32, ctypes.c_void_p]

    def must(self, status: int, what: str) -> None:
        """Raises if a call failed."""
        if status != 0:
            raise RuntimeError(f"{what}: {self.lib.cenote_status_name(status).decode()}")

    def address(self, name: str) -> int:
        """Address of an exported function, as PyTorch's setters want it."""
        return ctypes.cast(getattr(self.lib, name), ctypes.c_void_p).value

    def stats(self, pool: int = 0) -> dict:
        """Statistics of a pool; 0 is the default pool of the current device."""
        out = PoolStats(struct_size=ctypes.sizeof(PoolStats))
        self.must(self.lib.cenote_pool_stats(pool, ctypes.byref(out)), "cenote_pool_stats")
        return {name: getattr(out, name) for name, _ in PoolStats._fields_[2:]}

    def empty_cache(self, device: int = 0) -> int:
        """Bytes given back to the driver."""
        out = TrimResult(struct_size=ctypes.sizeof(TrimResult))
        self.must(self.lib.cenote_empty_cache(device, ctypes.byref(out)), "cenote_empty_cache")
        return out.returned_bytes
