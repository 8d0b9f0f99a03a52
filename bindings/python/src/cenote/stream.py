"""Streams: anything that names one, and registrations."""

import ctypes
from typing import Any, Optional

from . import _abi
from ._load import lib
from .errors import ClosedError, check

DEFAULT = 0
"""The legacy default stream."""
LEGACY = 1
"""The legacy default stream, by its own name."""
PER_THREAD = 2
"""The calling thread's default stream."""

_as_argument = ctypes.c_void_p.from_param
DEFAULT_ARGUMENT = _as_argument(DEFAULT)


def handle_of(stream: Any) -> int:
    """The handle behind whatever names a stream.

    None (the legacy default), an int, a cenote.Stream, an object with `__cuda_stream__`
    (cuda.core), a stream of PyTorch (`cuda_stream`), CuPy (`ptr`) or Numba (`handle`), or what
    int() takes.
    """
    if stream is None:
        return DEFAULT
    if isinstance(stream, int):
        return stream
    if isinstance(stream, Stream):
        return stream.handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, attribute, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    try:
        return int(stream)
    except (TypeError, ValueError):
        raise TypeError(f"{stream!r} names no stream") from None


def argument_of(stream: Any) -> Any:
    """The handle, ready to be passed to the library."""
    return _as_argument(handle_of(stream))


class Stream:
    """A registered stream: calls that use it ask the driver nothing.

    `raw` (anything handle_of takes) must outlive the registration, and is kept alive by it. Close
    it before the raw stream is destroyed, and free the blocks on it before. `persistent` promises
    that the stream lives until then; `capture_told`, that captures are told by capture_begin and
    capture_end.
    """

    def __init__(
        self,
        raw: Any = None,
        *,
        device: int = 0,
        persistent: bool = True,
        capture_told: bool = False,
    ) -> None:
        self._closed = True
        promises = _abi.CENOTE_STREAM_PERSISTENT if persistent else 0
        promises |= _abi.CENOTE_STREAM_CAPTURE_TOLD if capture_told else 0
        made = ctypes.c_void_p()
        self.raw = handle_of(raw)
        check(lib.cenote_stream_register(device, self.raw, promises, ctypes.byref(made)))
        self._keep = raw
        self._handle = made.value or 0
        self._closed = False

    @property
    def handle(self) -> int:
        """The registered value; a use after close raises."""
        if self._closed:
            raise ClosedError("the stream is closed", status=_abi.CENOTE_E_STREAM)
        return self._handle

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._closed

    def close(self) -> None:
        """End the registration; a second call does nothing."""
        if not self._closed:
            check(lib.cenote_stream_retire(self._handle))
            self._closed = True
            self._keep = None

    def capture_begin(self) -> None:
        """Tell that a capture of this stream begins."""
        check(lib.cenote_capture_begin(self.handle))

    def capture_end(self) -> int:
        """Tell that the capture has ended; the id is for release_graph."""
        graph = ctypes.c_uint64()
        check(lib.cenote_capture_end(self.handle, ctypes.byref(graph)))
        return graph.value

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self, _retire: Any = lib.cenote_stream_retire) -> None:
        if not getattr(self, "_closed", True):
            _retire(self._handle)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._handle:#x}"
        return f"<cenote.Stream {state} of {self.raw:#x}>"


def release_graph(graph: int) -> None:
    """Release the private memory of a told capture, once its graph is destroyed."""
    check(lib.cenote_graph_release(graph))


def raw_of(stream: Optional[Any]) -> int:
    """The driver's handle behind whatever names a stream, registered ones included."""
    return stream.raw if isinstance(stream, Stream) else handle_of(stream)
