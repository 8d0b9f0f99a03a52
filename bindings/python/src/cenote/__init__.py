"""cenote: one GPU memory manager for every language in the process.

    import cenote

    with cenote.Pool(limit="8GiB") as pool:
        with pool.alloc("16MiB", stream) as block:
            ...                                  # work queued on stream uses block.ptr
        print(pool.stats.held_bytes)

Sizes are ints of bytes or texts ("8GiB", "500MB", "50%"). Streams are whatever names one: None, an
int, a stream of PyTorch, CuPy, Numba or cuda.core, or a cenote.Stream. Failures are exceptions
under cenote.Error; out of memory is a MemoryError too. Blocks, pools and streams are context
managers, may be closed at any time, and are closed when collected; every object may be used from
any thread.

Importing opens the library (see cenote._load for where) and does nothing else: no thread, no device
context, no memory.
"""

from typing import Any

from . import errors
from ._load import library_path
from .block import Block, BlockInfo, Segment, block_info, free
from .errors import (
    AbiError,
    AddressSpaceError,
    AlignmentError,
    ArgumentError,
    CaptureError,
    ClosedError,
    ConfiguredError,
    ContextLostError,
    DeviceError,
    DoubleFreeError,
    DriverError,
    DriverExitError,
    DriverInitError,
    DriverSymbolError,
    Error,
    FlagsError,
    ForeignPointerError,
    ForkedError,
    GraphError,
    HandleError,
    HostMemoryError,
    InteriorPointerError,
    InternalError,
    LimitError,
    NoDeviceError,
    NoDriverError,
    NoLibraryError,
    NoSuchDeviceError,
    NotRecordedError,
    NotSupportedError,
    NullError,
    OptionError,
    OptionValueError,
    OutOfMemoryError,
    PanicError,
    PinnedError,
    PoolBusyError,
    ReentrantError,
    SecondCopyError,
    ShutdownError,
    SizeError,
    SizeMismatchError,
    StateError,
    StreamError,
    StructSizeError,
    WouldBlockError,
    WouldGrowError,
)
from .interop import Array
from .pool import Pool, PoolStats
from .runtime import (
    DeviceInfo,
    Option,
    RuntimeInfo,
    TrimResult,
    configure,
    device_count,
    device_info,
    empty_cache,
    info,
    limit_device,
    options,
    poll,
    shutdown,
    version,
)
from .sizes import Size, parse_size
from .stream import Stream, release_graph


def default_pool(device: int = -1) -> Pool:
    """The default pool of a device (-1: the current one)."""
    return Pool.default(device)


def alloc(size: Size, stream: Any = None, *, device: int = -1, **options: Any) -> Block:
    """A block of a device's default pool; options as in Pool.alloc."""
    return Pool.default(device).alloc(size, stream, **options)


__all__ = [
    "AbiError",
    "AddressSpaceError",
    "AlignmentError",
    "ArgumentError",
    "Array",
    "Block",
    "BlockInfo",
    "CaptureError",
    "ClosedError",
    "ConfiguredError",
    "ContextLostError",
    "DeviceError",
    "DeviceInfo",
    "DoubleFreeError",
    "DriverError",
    "DriverExitError",
    "DriverInitError",
    "DriverSymbolError",
    "Error",
    "FlagsError",
    "ForeignPointerError",
    "ForkedError",
    "GraphError",
    "HandleError",
    "HostMemoryError",
    "InteriorPointerError",
    "InternalError",
    "LimitError",
    "NoDeviceError",
    "NoDriverError",
    "NoLibraryError",
    "NoSuchDeviceError",
    "NotRecordedError",
    "NotSupportedError",
    "NullError",
    "Option",
    "OptionError",
    "OptionValueError",
    "OutOfMemoryError",
    "PanicError",
    "PinnedError",
    "Pool",
    "PoolBusyError",
    "PoolStats",
    "ReentrantError",
    "RuntimeInfo",
    "SecondCopyError",
    "Segment",
    "ShutdownError",
    "Size",
    "SizeError",
    "SizeMismatchError",
    "StateError",
    "Stream",
    "StreamError",
    "StructSizeError",
    "TrimResult",
    "WouldBlockError",
    "WouldGrowError",
    "alloc",
    "block_info",
    "configure",
    "default_pool",
    "device_count",
    "device_info",
    "empty_cache",
    "errors",
    "free",
    "info",
    "library_path",
    "limit_device",
    "options",
    "parse_size",
    "poll",
    "release_graph",
    "shutdown",
    "version",
]
