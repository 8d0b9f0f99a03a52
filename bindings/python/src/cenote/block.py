"""Blocks: memory that is freed in stream order."""

import ctypes
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from . import _abi, interop
from ._load import lib, unprototyped
from .errors import ClosedError, check, failure
from .runtime import sized
from .stream import argument_of, handle_of

_free = unprototyped("cenote_free")


@dataclass(frozen=True)
class Segment:
    """One physical handle under a block (handle 0: the backend has none)."""

    base: int
    size_bytes: int
    handle: int


@dataclass(frozen=True)
class BlockInfo:
    """Facts of a live block."""

    kind: str
    device: int
    pool: int
    base: int
    offset_bytes: int
    requested_bytes: int
    usable_bytes: int
    host_ptr: Optional[int]
    reservation_base: int
    reservation_bytes: int
    pin_count: int
    captured: bool


KINDS = {_abi.CENOTE_KIND_DEVICE: "device", _abi.CENOTE_KIND_HOST: "host"}


def block_info(ptr: int) -> BlockInfo:
    """Facts of the live block that contains an address, whichever language allocated it."""
    made = sized(_abi.cenote_block_info_t)
    check(lib.cenote_block_info(ptr, ctypes.byref(made)))
    return BlockInfo(
        kind=KINDS.get(made.kind, f"kind {made.kind}"),
        device=made.device,
        pool=made.pool,
        base=made.base,
        offset_bytes=made.offset_bytes,
        requested_bytes=made.requested_bytes,
        usable_bytes=made.usable_bytes,
        host_ptr=made.host_ptr,
        reservation_base=made.reservation_base,
        reservation_bytes=made.reservation_bytes,
        pin_count=made.pin_count,
        captured=bool(made.captured),
    )


def free(ptr: int, stream: Any = None) -> None:
    """Free a block by its address, whichever language allocated it."""
    check(lib.cenote_free(ptr, handle_of(stream)))


class _Cell(ctypes.c_void_p):
    """Where the library writes an address. `reference` is its ready-made by-reference argument."""

    __slots__ = ("reference",)
    reference: Any


# Cells of blocks that are gone, used again: making one costs as much as the allocation.
CELLS: List[_Cell] = []
_CELLS_MAX = 1024


def new_cell() -> _Cell:
    """A cell where CELLS has none."""
    cell = _Cell()
    cell.reference = ctypes.byref(cell)
    return cell


class Block:
    """Memory of a pool, freed on its stream when closed, collected, or left by `with`.

    Made by Pool.alloc or Block.adopt. Arrays made of it keep it alive: free it explicitly only when
    none is in use.
    """

    # The cell is None once the block is freed or given away.
    __slots__ = ("_cell", "_size", "_pool", "_stream", "_argument", "__weakref__")
    _cell: Optional[_Cell]
    _size: int
    _pool: Any
    _stream: Any
    _argument: Any

    def __init__(self) -> None:
        raise TypeError("a block is made by Pool.alloc or Block.adopt")

    @classmethod
    def adopt(cls, ptr: int, size: int, stream: Any = None) -> "Block":
        """Own a block that another part of the program, or another language, allocated."""
        block = cls.__new__(cls)
        cell = new_cell()
        cell.value = ptr
        block._cell = cell
        block._size, block._pool, block._stream = size, None, stream
        block._argument = argument_of(stream)
        return block

    @property
    def closed(self) -> bool:
        """True once freed or released."""
        return self._cell is None

    @property
    def ptr(self) -> int:
        """The address; 0 for a block of 0 bytes."""
        cell = self._cell
        if cell is None:
            raise ClosedError("the block is freed", status=_abi.CENOTE_E_DOUBLE_FREE)
        return cell.value or 0

    @property
    def size(self) -> int:
        """Bytes asked for."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes asked for, by NumPy's name."""
        return self._size

    @property
    def pool(self) -> Any:
        """The pool it came from; None if it was adopted."""
        return self._pool

    @property
    def stream(self) -> Any:
        """What names the stream on which it is freed; may be set."""
        return self._stream

    @stream.setter
    def stream(self, stream: Any) -> None:
        self._argument, self._stream = argument_of(stream), stream

    @property
    def info(self) -> BlockInfo:
        """Facts of the block."""
        return block_info(self.ptr)

    @property
    def segments(self) -> List[Segment]:
        """The physical handles under the block, in address order."""
        count = ctypes.c_uint32(0)
        ptr = self.ptr
        status = lib.cenote_block_segments(ptr, None, ctypes.byref(count))
        if status and status != _abi.CENOTE_E_ARGUMENT:
            raise failure(status)
        found = (_abi.cenote_segment_t * count.value)()
        check(lib.cenote_block_segments(ptr, found, ctypes.byref(count)))
        return [Segment(s.base, s.size_bytes, s.handle) for s in found]

    def free(self, stream: Any = None) -> None:
        """Free now, on its stream or another; a second call does nothing.

        If the library refuses, the block stays as it was.
        """
        cell = self._cell
        if cell is None:
            return
        argument = self._argument if stream is None else argument_of(stream)
        self._cell = None  # first, so that no second thread frees it too
        status = _free(cell, argument)
        if status:
            self._cell = cell
            raise failure(status)
        if len(CELLS) < _CELLS_MAX:
            CELLS.append(cell)

    def close(self) -> None:
        """free(), by the name that contextlib.closing expects."""
        self.free()

    def release(self) -> int:
        """Give the block away: whoever takes the address frees it, in whatever language."""
        ptr = self.ptr
        self._cell = None
        return ptr

    def record_stream(self, stream: Any) -> None:
        """Say that the block is used on another stream too, until it is freed or use_end."""
        check(lib.cenote_block_record_stream(self.ptr, handle_of(stream)))

    def use_end(self, stream: Any) -> None:
        """Say that a recorded use has ended."""
        check(lib.cenote_block_use_end(self.ptr, handle_of(stream)))

    def pin(self) -> None:
        """Bar it from being freed, and its pages from moving, until unpinned as often."""
        check(lib.cenote_block_pin(self.ptr))

    def unpin(self) -> None:
        """Undo one pin."""
        check(lib.cenote_block_unpin(self.ptr))

    def array(
        self, shape: Optional[Tuple[int, ...]] = None, dtype: Any = "|u1", offset: int = 0
    ) -> "interop.Array":
        """A typed view for NumPy, PyTorch, CuPy and others; keeps the block alive."""
        return interop.Array(self, shape, dtype, offset)

    @property
    def __array_interface__(self) -> dict:
        return self.array().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict:
        return self.array().__cuda_array_interface__

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array().__dlpack__(**arguments)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.array().__dlpack_device__()

    def __enter__(self) -> "Block":
        self.ptr  # raises if it is closed
        return self

    def __exit__(self, *_exception: object) -> None:
        self.free()

    def __del__(self, _free: Any = _free) -> None:
        # Bound as a default: at interpreter exit the module's names may be gone. A status is
        # dropped: there is nobody to tell, and the library has changed nothing.
        try:
            cell = self._cell
        except AttributeError:  # made by no one of ours
            return
        if cell is not None:
            _free(cell, self._argument)

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return not self.closed

    def __repr__(self) -> str:
        if self.closed:
            return "<cenote.Block closed>"
        return f"<cenote.Block {self.ptr:#x} {self._size} bytes>"

