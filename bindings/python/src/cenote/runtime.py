"""The library and its devices: version, options, facts, limits, giving memory back."""

import ctypes
from dataclasses import dataclass
from typing import Any, List, Optional

from . import _abi
from ._load import lib
from .errors import check
from .sizes import Size, parse_size

UNKNOWN = 2**64 - 1
_BACKENDS = {
    _abi.CENOTE_BACKEND_HOST: "host",
    _abi.CENOTE_BACKEND_CUDA: "cuda",
    _abi.CENOTE_BACKEND_VTABLE: "vtable",
}


def sized(struct: Any) -> Any:
    """An out-struct with its size filled in."""
    return struct(struct_size=ctypes.sizeof(struct))


def known(value: int) -> Optional[int]:
    """None for a figure that the library does not know."""
    return None if value == UNKNOWN else value


@dataclass(frozen=True)
class RuntimeInfo:
    """The library and the backend that serves it."""

    abi_version: int
    backend: str
    driver_version: int
    device_count: int


@dataclass(frozen=True)
class DeviceInfo:
    """A device. None is "unknown" (free_bytes) or "no limit" (limit_bytes)."""

    index: int
    name: str
    uuid: str
    compute_capability: int
    total_bytes: int
    free_bytes: Optional[int]
    page_bytes: int
    limit_bytes: Optional[int]
    host_visible: bool
    export_fd: bool
    rdma: bool
    virtual_memory: bool


@dataclass(frozen=True)
class Option:
    """An option: effective value and its source ("default", "environment", "configure")."""

    name: str
    value: str
    source: str
    help: str


@dataclass(frozen=True)
class TrimResult:
    """What a trim did: bytes given back, still pending, kept by live blocks."""

    returned_bytes: int
    pending_bytes: int
    kept_bytes: int

    @classmethod
    def _of(cls, made: Any) -> "TrimResult":
        return cls(made.returned_bytes, made.pending_bytes, made.kept_bytes)


def version() -> str:
    """Version of the library."""
    return lib.cenote_version().decode()


def info() -> RuntimeInfo:
    """What serves this process; starts the backend, but takes no memory."""
    made = sized(_abi.cenote_runtime_info_t)
    check(lib.cenote_runtime_info(ctypes.byref(made)))
    backend = _BACKENDS.get(made.backend, f"backend {made.backend}")
    return RuntimeInfo(made.abi_version, backend, made.driver_version, made.device_count)


def configure(**options: Any) -> None:
    """Set options before the first pool exists: configure(limit="8GiB", slack=0.01)."""
    for name, value in options.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        check(lib.cenote_configure(name.encode(), text.encode()))


def options() -> List[Option]:
    """Every option with its effective value and the source of that value."""
    sources = ("default", "environment", "configure")
    found = []
    for index in range(lib.cenote_option_count()):
        made = sized(_abi.cenote_option_t)
        check(lib.cenote_option_at(index, ctypes.byref(made)))
        texts = (made.name.decode(), made.value.decode(errors="replace"))
        found.append(Option(*texts, sources[made.source], made.help.decode()))
    return found


def device_count() -> int:
    """Number of devices."""
    count = ctypes.c_uint32()
    check(lib.cenote_device_count(ctypes.byref(count)))
    return count.value


def device_info(device: int = 0) -> DeviceInfo:
    """Facts of a device; creates no context."""
    made = sized(_abi.cenote_device_info_t)
    check(lib.cenote_device_info(device, ctypes.byref(made)))
    return DeviceInfo(
        index=device,
        name=made.name.decode(errors="replace"),
        uuid=made.uuid.decode(errors="replace"),
        compute_capability=made.compute_capability,
        total_bytes=made.total_bytes,
        free_bytes=known(made.free_bytes),
        page_bytes=made.page_bytes,
        limit_bytes=known(made.limit_bytes),
        host_visible=bool(made.host_visible),
        export_fd=bool(made.export_fd),
        rdma=bool(made.rdma),
        virtual_memory=bool(made.virtual_memory),
    )


def limit_device(limit: Optional[Size], device: int = 0) -> None:
    """Limit what this process may hold on a device ("8GiB", "50%"); None for no limit."""
    if limit is None:
        limit_bytes = UNKNOWN
    else:
        limit_bytes = parse_size(limit, device_info(device).total_bytes)
    check(lib.cenote_device_limit(device, limit_bytes))


def empty_cache(device: int = -1) -> TrimResult:
    """Give back every idle page of a device (-1: of all)."""
    made = sized(_abi.cenote_trim_result)
    check(lib.cenote_empty_cache(device, ctypes.byref(made)))
    return TrimResult._of(made)


def poll() -> None:
    """Do what is due without an allocation: collect finished frees, give decayed pages back."""
    check(lib.cenote_poll())


def shutdown() -> None:
    """Give everything back and refuse further work; optional, a process may simply exit."""
    check(lib.cenote_shutdown())
