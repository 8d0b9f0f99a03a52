"""Find, open and check the one library of this process.

Order: a libcenote.so.0 that is loaded already, whoever loaded it (every language then shares the
same pools); the file named by CENOTE_LIBRARY; the one inside this package; the dynamic linker's
search.
"""

import ctypes
import os
import pathlib

from . import _abi

RTLD_NOLOAD = 0x00004  # <bits/dlfcn.h>; os.RTLD_NOLOAD is missing on some builds of Python


def _open() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(_abi.SONAME, mode=os.RTLD_NOW | RTLD_NOLOAD)
    except OSError:
        pass
    named = os.environ.get("CENOTE_LIBRARY")
    packaged = pathlib.Path(__file__).parent / "_lib" / _abi.SONAME
    if named:
        path = named
    elif packaged.exists():
        path = str(packaged)
    else:
        path = _abi.SONAME
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW)
    except OSError as error:
        raise ImportError(
            f"no cenote library (install the package, or set CENOTE_LIBRARY to its file): {error}"
        ) from error


def _checked(library: ctypes.CDLL) -> ctypes.CDLL:
    try:
        generation = library.cenote_abi_version()
        if generation != _abi.CENOTE_ABI_VERSION:
            raise ImportError(
                f"the cenote library is of ABI generation {generation}, this package of "
                f"{_abi.CENOTE_ABI_VERSION}: install the package that belongs to it"
            )
        _abi.declare(library)
    except AttributeError as error:
        raise ImportError(f"the cenote library is too old for this package: {error}") from error
    return library


lib = _checked(_open())


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def library_path() -> str:
    """File of the library that serves this process: what a framework's plug-in call asks for."""
    info = _DlInfo()
    address = ctypes.cast(lib.cenote_abi_version, ctypes.c_void_p)
    found = ctypes.CDLL(None).dladdr(address, ctypes.byref(info))
    return os.path.abspath(os.fsdecode(info.file)) if found and info.file else ""


def unprototyped(name: str):
    """A private copy of a function without argument conversion, for the two hot calls.

    Its arguments must be ctypes values already. A conversion by argtypes costs more than the call.
    """
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32)
    function = prototype((name, lib))
    del function.argtypes
    return function
