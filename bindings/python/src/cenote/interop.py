"""Arrays over blocks: NumPy's and CUDA's array interfaces, and DLPack.

Everything here is a view. The view keeps its block alive, and whatever is made of the view keeps
the view alive; a DLPack export also pins the block, so that an explicit free is refused while a
consumer still has it.
"""

import atexit
import ctypes
from typing import Any, Dict, Optional, Tuple

from . import order
from ._load import lib
from .errors import check

DL_CPU = 1
DL_CUDA = 2

# NumPy's one-letter kinds to DLPack's type codes, and names to NumPy's type texts.
_DL_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMES = {"bool": "|b1", "complex64": "<c8", "complex128": "<c16"}
_NAMES.update({f"int{8 * n}": f"<i{n}" for n in (1, 2, 4, 8)})
_NAMES.update({f"uint{8 * n}": f"<u{n}" for n in (1, 2, 4, 8)})
_NAMES.update({f"float{8 * n}": f"<f{n}" for n in (2, 4, 8)})


def type_text(dtype: Any) -> str:
    """NumPy's text of a type ("<f4") from a text, a name ("float32") or a dtype object."""
    text = getattr(dtype, "str", dtype)
    if not isinstance(text, str):
        text = getattr(dtype, "__name__", "")
    text = _NAMES.get(text, text)
    if len(text) > 1 and text[0] in "iufcb" and text[1:].isdigit():
        text = "<" + text
    good = len(text) > 2 and text[0] in "<|" and text[1] in _DL_CODES and text[2:].isdigit()
    if not good or int(text[2:]) not in (1, 2, 4, 8, 16):
        raise TypeError(f"{dtype!r} is no plain number type such as 'float32' or '<f4'")
    return "|" + text[1:] if text[2:] == "1" else text


class Array:
    """A typed, C-contiguous view of a block."""

    def __init__(
        self, block: Any, shape: Optional[Tuple[int, ...]], dtype: Any, offset: int
    ) -> None:
        text = type_text(dtype)
        self.itemsize = int(text[2:])
        if not 0 <= offset <= block.size or (block.ptr + offset) % self.itemsize:
            raise ValueError(f"the offset {offset} is outside the block or not aligned")
        if shape is None:
            shape = ((block.size - offset) // self.itemsize,)
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.size = 1
        for extent in self.shape:
            self.size *= extent
        if any(n < 0 for n in self.shape) or self.nbytes > block.size - offset:
            raise ValueError(f"{self.shape} of {text} does not fit into {block.size} bytes")
        self.typestr = text
        self.block = block
        self.offset = offset

    @property
    def nbytes(self) -> int:
        """Bytes of the view."""
        return self.size * self.itemsize

    @property
    def ptr(self) -> int:
        """Address of the first element; 0 for an empty view."""
        return self.block.ptr + self.offset if self.nbytes else 0

    @property
    def device(self) -> Tuple[int, int]:
        """DLPack's device of the memory: its type and index."""
        if self.nbytes == 0 or self.block.info.host_ptr is not None:
            return (DL_CPU, 0)
        return (DL_CUDA, self.block.info.device)

    def _interface(self, ptr: int) -> Dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (ptr, False),
            "strides": None,
        }

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        # An AttributeError tells NumPy that there is no such interface.
        if self.nbytes == 0:
            # NumPy wants an address even where nothing is behind it.
            return self._interface(ctypes.addressof(_NOTHING))
        host = self.block.info.host_ptr
        if host is None:
            raise AttributeError("the CPU cannot use this block")
        return self._interface(host + self.offset)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if order.backend() != "cuda" or self.block.info.kind == "host":
            raise AttributeError("the block is not memory of a CUDA device")
        made = self._interface(self.ptr)
        made["stream"] = order.consumer_stream(self.block.stream)
        return made

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.device

    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        device = self.device
        if copy:
            raise BufferError("a block is exported in place, never copied")
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"the block is on the DLPack device {device}, not {dl_device}")
        if device[0] == DL_CUDA and self.nbytes:
            order.follow(self.block, stream)
        elif stream not in (None, -1):
            raise BufferError("memory of the CPU has no stream")
        return _export(self, device, max_version is not None and tuple(max_version) >= (1, 0))

    def __repr__(self) -> str:
        return f"<cenote.Array {self.shape} {self.typestr} of {self.block!r}>"


_NOTHING = ctypes.c_uint64()


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


# Exports that a consumer still has: address of the managed struct to all that must live as long.
_EXPORTS: Dict[int, Tuple[Any, ...]] = {}


@_Deleter
def _delete(managed: int) -> None:
    export = _EXPORTS.pop(managed, None)
    if export is not None and export[1].nbytes:
        lib.cenote_block_unpin(export[1].block.ptr)


@atexit.register
def _leave_exports() -> None:
    # A consumer may outlive the interpreter, and must not call into it: without a deleter it calls
    # nothing, and the structs it still reads are never collected.
    for export in _EXPORTS.values():
        export[0].deleter = None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(export))


def _export(array: Array, device: Tuple[int, int], versioned: bool) -> Any:
    managed = _ManagedVersioned(major=1, minor=0) if versioned else _Managed()
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
    ndim = len(array.shape)
    shape = (ctypes.c_int64 * max(ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(ndim, 1))()
    step = 1
    for axis in reversed(range(ndim)):
        strides[axis] = step
        step *= array.shape[axis]
    tensor = managed.tensor
    host = array.block.info.host_ptr if array.nbytes and device[0] == DL_CPU else None
    tensor.data = host + array.offset if host is not None else array.ptr
    tensor.device_type, tensor.device_id = device
    tensor.ndim = ndim
    tensor.code, tensor.bits = _DL_CODES[array.typestr[1]], 8 * array.itemsize
    tensor.lanes = 1
    tensor.shape, tensor.strides = ctypes.addressof(shape), ctypes.addressof(strides)
    if array.nbytes:
        check(lib.cenote_block_pin(array.block.ptr))
    address = ctypes.addressof(managed)
    _EXPORTS[address] = (managed, array, shape, strides)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    return _new_capsule(address, name, _drop)


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _dropped(capsule: int) -> None:
    # A consumer that took the tensor has renamed the capsule; then it is the consumer's to delete.
    for name in (b"dltensor", b"dltensor_versioned"):
        if _capsule_is(capsule, name):
            _delete(_capsule_pointer(capsule, name))


_drop = ctypes.cast(_dropped, ctypes.c_void_p)

