"""Pools."""

import ctypes
from dataclasses import dataclass, fields
from typing import Any, Dict, Optional, Union

from . import _abi
from ._load import lib, unprototyped
from .block import CELLS, KINDS, Block, new_cell
from .errors import PoolBusyError, check, failure
from .runtime import TrimResult, device_info, known, sized
from .sizes import Size, parse_size
from .stream import DEFAULT_ARGUMENT, argument_of

_alloc = unprototyped("cenote_alloc")
_new = object.__new__
_size_argument = ctypes.c_uint64.from_param

# Sizes seen, ready to be passed: programs ask for few different ones. Bounded, never cleared.
_SIZES: Dict[int, Any] = {}
_SIZES_MAX = 4096


def _remember(size: int) -> Any:
    """The argument of a size that is not in the table yet."""
    argument = _size_argument(parse_size(size))
    if len(_SIZES) < _SIZES_MAX:
        _SIZES[size] = argument
    return argument


@dataclass(frozen=True)
class PoolStats:
    """Statistics of a pool. None is "unknown"; `untrusted` is 1 once the context is lost."""

    untrusted: Optional[int]
    live_bytes: Optional[int]
    used_bytes: Optional[int]
    pending_bytes: Optional[int]
    cached_bytes: Optional[int]
    held_bytes: Optional[int]
    reserved_bytes: Optional[int]
    peak_live_bytes: Optional[int]
    peak_held_bytes: Optional[int]
    largest_free_bytes: Optional[int]
    live_blocks: Optional[int]
    alloc_count: Optional[int]
    free_count: Optional[int]
    driver_create_count: Optional[int]
    driver_map_count: Optional[int]
    driver_access_count: Optional[int]
    driver_unmap_count: Optional[int]
    driver_release_count: Optional[int]
    driver_time_ns: Optional[int]
    event_record_count: Optional[int]
    event_query_count: Optional[int]
    retry_count: Optional[int]
    oom_count: Optional[int]
    dropped_count: Optional[int]
    takeover_count: Optional[int]


class Pool:
    """A pool of one device.

    limit, initial: sizes ("8GiB", "500MB", "50%" of the device, an int of bytes). kind: "device" or
    "host". slack: share by which held memory may exceed peak live memory (0.01), "auto", or None
    for the option. decay: seconds after which idle pages go back, False for never, None for the
    option. stable: pages never change their physical memory (NCCL, RDMA).

    Blocks keep their pool alive. close() with live blocks raises PoolBusyError and changes nothing.
    """

    def __init__(
        self,
        *,
        limit: Optional[Size] = None,
        device: int = 0,
        kind: str = "device",
        initial: Optional[Size] = None,
        slack: Union[float, str, None] = None,
        decay: Union[float, bool, None] = None,
        stable: bool = False,
        name: str = "",
    ) -> None:
        self._owned = False
        desc = sized(_abi.cenote_pool_desc)
        desc.kind = _kind_number(kind)
        desc.device = device
        desc.flags = _abi.CENOTE_POOL_STABLE if stable else 0
        desc.limit_bytes = _pool_size(limit, device, "limit")
        desc.initial_bytes = _pool_size(initial, device, "initial")
        desc.slack_ppm = _slack_ppm(slack)
        desc.decay_ms = _decay_ms(decay)
        desc.name = _short_name(name)
        made = ctypes.c_uint64()
        check(lib.cenote_pool_create(ctypes.byref(desc), ctypes.byref(made)))
        self._bind(made.value, owned=True)

    def _bind(self, handle: int, *, owned: bool) -> None:
        self._handle = handle
        self._argument = _size_argument(handle)
        self._owned = owned

    @classmethod
    def default(cls, device: int = -1) -> "Pool":
        """The default pool of a device (-1: the current one); never destroyed."""
        made = ctypes.c_uint64()
        check(lib.cenote_pool_default(device, ctypes.byref(made)))
        pool = cls.__new__(cls)
        pool._bind(made.value, owned=False)
        return pool

    @property
    def handle(self) -> int:
        """The library's id of the pool."""
        return self._handle

    def alloc(
        self,
        size: Size,
        stream: Any = None,
        *,
        align: int = 0,
        nowait: bool = False,
        no_grow: bool = False,
        no_cross_stream: bool = False,
    ) -> Block:
        """A block in stream order.

        stream: anything that names one (see cenote.stream.handle_of). align: a power of two up to
        2 MiB. nowait, no_grow, no_cross_stream: fail rather than wait for the device, take new
        memory, or use what another stream freed.
        """
        if type(size) is not int:
            size = parse_size(size)
        argument = DEFAULT_ARGUMENT if stream is None else argument_of(stream)
        try:
            cell = CELLS.pop()
        except IndexError:
            cell = new_cell()
        if align or nowait or no_grow or no_cross_stream:
            flags = _abi.CENOTE_ALLOC_NOWAIT if nowait else 0
            flags |= _abi.CENOTE_ALLOC_NO_GROW if no_grow else 0
            flags |= _abi.CENOTE_ALLOC_NO_CROSS_STREAM if no_cross_stream else 0
            status = self._alloc_ex(cell, parse_size(size), align, flags, argument)
        else:
            wanted = _SIZES.get(size) or _remember(size)
            status = _alloc(self._argument, wanted, argument, cell.reference)
        if status:
            raise failure(status)
        block = _new(Block)
        block._cell = cell
        block._size = size
        block._pool = self
        block._stream = stream
        block._argument = argument
        return block

    def _alloc_ex(self, cell: Any, size: int, align: int, flags: int, stream: Any) -> int:
        desc = sized(_abi.cenote_alloc_desc)
        desc.flags, desc.size_bytes, desc.align_bytes = flags, size, parse_size(align)
        return lib.cenote_alloc_ex(self._handle, ctypes.byref(desc), stream, cell.reference)

    def trim(self, keep: Size = 0) -> TrimResult:
        """Give idle memory back until at most `keep` bytes are held."""
        made = sized(_abi.cenote_trim_result)
        check(lib.cenote_pool_trim(self._handle, parse_size(keep), ctypes.byref(made)))
        return TrimResult._of(made)

    @property
    def stats(self) -> PoolStats:
        """Statistics now."""
        made = sized(_abi.cenote_pool_stats_t)
        check(lib.cenote_pool_stats(self._handle, ctypes.byref(made)))
        return PoolStats(*(known(getattr(made, field.name)) for field in fields(PoolStats)))

    def reset_peaks(self) -> None:
        """Set the peaks to the current values."""
        check(lib.cenote_pool_reset_peaks(self._handle))

    def close(self) -> None:
        """Give the pool's memory back; a second call does nothing, nor does a default pool's."""
        if self._owned:
            check(lib.cenote_pool_destroy(self._handle))
            self._owned = False

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            self.close()
        except PoolBusyError:
            # The exception that left the `with` says more than the blocks it left behind.
            if value is None:
                raise

    def __del__(self, _destroy: Any = lib.cenote_pool_destroy) -> None:
        if getattr(self, "_owned", False):
            _destroy(self._handle)

    def __repr__(self) -> str:
        return f"<cenote.Pool {self._handle:#x}>"


def _kind_number(kind: str) -> int:
    for number, name in KINDS.items():
        if kind == name:
            return number
    raise ValueError(f"the kind {kind!r} is none of {', '.join(KINDS.values())}")


def _pool_size(value: Optional[Size], device: int, what: str) -> int:
    if value is None:
        return 0
    share = isinstance(value, str) and value.strip().endswith("%")
    size = parse_size(value, device_info(max(device, 0)).total_bytes if share else None)
    if size == 0 and what == "limit":
        raise ValueError("a limit of 0 bytes: leave it away for no limit")
    return size


def _slack_ppm(slack: Union[float, str, None]) -> int:
    if slack is None:
        return 0
    if slack == "auto":
        return _abi.CENOTE_SLACK_AUTO
    if isinstance(slack, str) or not 0 < slack <= 100:
        raise ValueError(f"the slack {slack!r} is neither 'auto' nor a share such as 0.01")
    return max(1, round(slack * 1_000_000))


def _decay_ms(decay: Union[float, bool, None]) -> int:
    if decay is None:
        return 0
    if decay is False:
        return _abi.CENOTE_DECAY_OFF
    if decay is True or not 0 < decay <= 4_000_000:
        raise ValueError(f"the decay {decay!r} is neither False nor seconds above 0")
    return max(1, round(decay * 1000))


def _short_name(name: str) -> bytes:
    encoded = name.encode()
    if len(encoded) > 31 or b"\0" in encoded:
        raise ValueError(f"the name {name!r} exceeds 31 bytes or holds a NUL")
    return encoded
