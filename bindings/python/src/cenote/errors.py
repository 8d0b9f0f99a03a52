"""Exceptions: one for each status, under one base and a class for each family of numbers."""

import ctypes
from typing import Dict, Optional, Type

from . import _abi
from ._load import lib


class Error(Exception):
    """A call of cenote failed. `status` and `name` say how, the rest gives the figures."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        backend_code: int = 0,
        wanted_bytes: int = 0,
        available_bytes: int = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.backend_code = backend_code
        self.wanted_bytes = wanted_bytes
        self.available_bytes = available_bytes

    @property
    def name(self) -> str:
        """C name of the status, "" for an error of this package."""
        return _abi.STATUSES[self.status][0] if self.status in _abi.STATUSES else ""


class ArgumentError(Error, ValueError):
    """The caller's argument (statuses from 1000)."""


class OutOfMemoryError(Error, MemoryError):
    """Memory (statuses from 2000): none left, or refused."""


class DeviceError(Error, RuntimeError):
    """Device, driver or library (statuses from 3000)."""


class StateError(Error, RuntimeError):
    """Not possible in this state (statuses from 4000)."""


class InternalError(Error, RuntimeError):
    """A fault of cenote itself (statuses from 9000)."""


class ClosedError(StateError, ValueError):
    """The block, pool or stream was closed before (found by this package)."""


class NullError(ArgumentError): ...
class AlignmentError(ArgumentError): ...
class SizeError(ArgumentError): ...
class FlagsError(ArgumentError): ...
class StructSizeError(ArgumentError): ...
class HandleError(ArgumentError): ...
class StreamError(ArgumentError): ...
class NoSuchDeviceError(ArgumentError): ...
class ForeignPointerError(ArgumentError): ...
class InteriorPointerError(ArgumentError): ...
class DoubleFreeError(ArgumentError): ...
class SizeMismatchError(ArgumentError): ...
class OptionError(ArgumentError): ...
class OptionValueError(ArgumentError): ...
class AbiError(ArgumentError): ...
class GraphError(ArgumentError): ...
class LimitError(OutOfMemoryError): ...
class AddressSpaceError(OutOfMemoryError): ...
class WouldBlockError(OutOfMemoryError): ...
class WouldGrowError(OutOfMemoryError): ...
class HostMemoryError(OutOfMemoryError): ...
class NoDriverError(DeviceError): ...
class DriverSymbolError(DeviceError): ...
class DriverInitError(DeviceError): ...
class DriverError(DeviceError): ...
class ContextLostError(DeviceError): ...
class NotSupportedError(DeviceError): ...
class NoDeviceError(DeviceError): ...
class DriverExitError(DeviceError): ...
class NoLibraryError(DeviceError): ...
class ShutdownError(StateError): ...
class ForkedError(StateError): ...
class SecondCopyError(StateError): ...
class ReentrantError(StateError): ...
class ConfiguredError(StateError): ...
class PinnedError(StateError): ...
class CaptureError(StateError): ...
class PoolBusyError(StateError): ...
class NotRecordedError(StateError): ...
class PanicError(InternalError): ...


BY_STATUS: Dict[int, Type[Error]] = {
    _abi.CENOTE_E_NULL: NullError,
    _abi.CENOTE_E_ARGUMENT: ArgumentError,
    _abi.CENOTE_E_ALIGNMENT: AlignmentError,
    _abi.CENOTE_E_SIZE: SizeError,
    _abi.CENOTE_E_FLAGS: FlagsError,
    _abi.CENOTE_E_STRUCT_SIZE: StructSizeError,
    _abi.CENOTE_E_HANDLE: HandleError,
    _abi.CENOTE_E_STREAM: StreamError,
    _abi.CENOTE_E_DEVICE: NoSuchDeviceError,
    _abi.CENOTE_E_FOREIGN_POINTER: ForeignPointerError,
    _abi.CENOTE_E_INTERIOR_POINTER: InteriorPointerError,
    _abi.CENOTE_E_DOUBLE_FREE: DoubleFreeError,
    _abi.CENOTE_E_SIZE_MISMATCH: SizeMismatchError,
    _abi.CENOTE_E_OPTION: OptionError,
    _abi.CENOTE_E_VALUE: OptionValueError,
    _abi.CENOTE_E_ABI: AbiError,
    _abi.CENOTE_E_GRAPH: GraphError,
    _abi.CENOTE_E_OUT_OF_MEMORY: OutOfMemoryError,
    _abi.CENOTE_E_LIMIT: LimitError,
    _abi.CENOTE_E_ADDRESS_SPACE: AddressSpaceError,
    _abi.CENOTE_E_WOULD_BLOCK: WouldBlockError,
    _abi.CENOTE_E_WOULD_GROW: WouldGrowError,
    _abi.CENOTE_E_HOST_MEMORY: HostMemoryError,
    _abi.CENOTE_E_NO_DRIVER: NoDriverError,
    _abi.CENOTE_E_DRIVER_SYMBOL: DriverSymbolError,
    _abi.CENOTE_E_DRIVER_INIT: DriverInitError,
    _abi.CENOTE_E_DRIVER: DriverError,
    _abi.CENOTE_E_CONTEXT_LOST: ContextLostError,
    _abi.CENOTE_E_NOT_SUPPORTED: NotSupportedError,
    _abi.CENOTE_E_NO_DEVICE: NoDeviceError,
    _abi.CENOTE_E_DRIVER_EXIT: DriverExitError,
    _abi.CENOTE_E_NO_LIBRARY: NoLibraryError,
    _abi.CENOTE_E_SHUTDOWN: ShutdownError,
    _abi.CENOTE_E_FORKED: ForkedError,
    _abi.CENOTE_E_SECOND_COPY: SecondCopyError,
    _abi.CENOTE_E_REENTRANT: ReentrantError,
    _abi.CENOTE_E_CONFIGURED: ConfiguredError,
    _abi.CENOTE_E_PINNED: PinnedError,
    _abi.CENOTE_E_CAPTURE: CaptureError,
    _abi.CENOTE_E_POOL_BUSY: PoolBusyError,
    _abi.CENOTE_E_NOT_RECORDED: NotRecordedError,
    _abi.CENOTE_E_INTERNAL: InternalError,
    _abi.CENOTE_E_PANIC: PanicError,
}

# A newer library may know statuses that this package does not: the family still tells.
_FAMILIES = {1: ArgumentError, 2: OutOfMemoryError, 3: DeviceError, 4: StateError}


def class_of(status: int) -> Type[Error]:
    """The exception of a status."""
    return BY_STATUS.get(status) or _FAMILIES.get(status // 1000, InternalError)


def failure(status: int, text: Optional[str] = None) -> Error:
    """The exception of a status that a call on this thread has just returned."""
    record = _abi.cenote_error(struct_size=ctypes.sizeof(_abi.cenote_error))
    lib.cenote_last_error(ctypes.byref(record))
    if text is not None or record.status != status:
        # Another call failed in between, from a finaliser: its figures are not ours.
        name, meaning = _abi.STATUSES.get(status, (f"status {status}", "unknown status"))
        return class_of(status)(text or f"{name}: {meaning}", status=status)
    return class_of(status)(
        record.message.decode(errors="replace"),
        status=status,
        backend_code=record.backend_code,
        wanted_bytes=record.wanted_bytes,
        available_bytes=record.available_bytes,
    )


def check(status: int) -> None:
    """Raise unless a call succeeded."""
    if status:
        raise failure(status)
