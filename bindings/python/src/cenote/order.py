"""Ordering of consumers after a block's stream, by the CUDA driver that the process already has.

The library itself never waits on a stream for another; an exchange protocol must.
"""

import ctypes
import functools
import os
from typing import Any, Optional

from ._load import RTLD_NOLOAD, lib
from .errors import check
from .runtime import info
from .stream import LEGACY, PER_THREAD, raw_of

_DISABLE_TIMING = 2


@functools.lru_cache(maxsize=None)
def backend() -> str:
    """The backend that serves this process."""
    return info().backend


def consumer_stream(stream: Any) -> int:
    """A block's stream as the array interface and DLPack number it: 0 is forbidden there."""
    return raw_of(stream) or LEGACY


@functools.lru_cache(maxsize=None)
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | RTLD_NOLOAD)
    except OSError as error:
        raise BufferError(f"no CUDA driver to order streams with: {error}") from error


def _call(name: str, *arguments: Any) -> None:
    result = getattr(_driver(), name)(*arguments)
    if result:
        raise BufferError(f"{name} failed with CUDA error {result}")


def follow(block: Any, stream: Optional[int]) -> None:
    """Make a consumer's stream wait for a block's, and the block's reuse for the consumer.

    `stream` is numbered as DLPack does: None is the legacy default stream, -1 asks for nothing.
    """
    if stream == -1:
        return
    if stream == 0:
        raise BufferError("stream 0 is ambiguous in DLPack: pass 1 or 2")
    consumer = LEGACY if stream is None else int(stream)
    producer = consumer_stream(block.stream)
    if consumer == producer and consumer != PER_THREAD:
        return
    event = ctypes.c_void_p()
    _call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(_DISABLE_TIMING))
    try:
        _call("cuEventRecord", event, ctypes.c_void_p(producer))
        _call("cuStreamWaitEvent", ctypes.c_void_p(consumer), event, ctypes.c_uint(0))
    finally:
        _call("cuEventDestroy_v2", event)
    check(lib.cenote_block_record_stream(block.ptr, consumer))
