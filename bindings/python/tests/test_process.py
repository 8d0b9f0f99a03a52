"""The process: how the library is found, exit in any state, forks, options."""

import os
import shutil

import pytest

import cenote


def test_versions():
    assert cenote.version().count(".") == 2
    assert cenote.info().abi_version == 1
    assert cenote.device_count() >= 1


def test_options():
    found = {option.name: option for option in cenote.options()}
    assert "limit" in found and found["limit"].help
    sources = ("default", "environment", "configure")
    assert all(option.source in sources for option in found.values())


def test_configure(python):
    code, out, err = python(
        "import cenote\n"
        "cenote.configure(slack=0.02)\n"
        "print({o.name: o for o in cenote.options()}['slack'].source)\n"
        "for bad in ({'limit': '0.15'}, {'no_such_option': 1}):\n"
        "    try: cenote.configure(**bad)\n"
        "    except cenote.ArgumentError as e: print(e.name)\n"
    )
    assert (code, err) == (0, "")
    assert out.split() == ["configure", "CENOTE_E_VALUE", "CENOTE_E_OPTION"]


def test_import_without_a_library(python):
    code, _, err = python("import cenote", CENOTE_LIBRARY="/nonexistent/libcenote.so.0")
    assert code == 1
    assert "CENOTE_LIBRARY" in err and "ImportError" in err


def test_a_loaded_library_is_found_first(python):
    code, out, err = python(
        "import ctypes, os\n"
        "path = os.environ.pop('CENOTE_LIBRARY')\n"
        "ctypes.CDLL(path)\n"
        "os.environ['CENOTE_LIBRARY'] = '/nonexistent/libcenote.so.0'\n"
        "import cenote\n"
        "print(os.path.samefile(cenote.library_path(), path))\n"
    )
    assert (code, out.strip(), err) == (0, "True", "")


LEFT_OPEN = """
import cenote
pool = cenote.Pool()
stream = cenote.Stream(device=0)
blocks = [pool.alloc(1 << 20, stream) for _ in range(20)]
cycle = [pool.alloc(10)]
cycle.append(cycle)
class Static:
    block = cenote.alloc(100)
{extra}
"""


@pytest.mark.parametrize(
    "extra",
    [
        "",
        "cenote.shutdown()",
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "import atexit; atexit.register(blocks.clear)",
        "import threading; threading.Thread(target=lambda: pool.alloc(5).free()).start()",
        "del pool, stream, cenote",
    ],
)
def test_exit_with_live_blocks(python, extra):
    assert python(LEFT_OPEN.format(extra=extra)) == (0, "", "")


def test_exit_with_a_dlpack_export(python):
    pytest.importorskip("numpy")
    text = "import numpy\narray = numpy.from_dlpack(blocks[0])\narray[:] = 1"
    if not cenote.device_info(0).host_visible:
        pytest.skip("the CPU cannot use this device's memory")
    assert python(LEFT_OPEN.format(extra=text)) == (0, "", "")


def test_after_shutdown(python):
    code, out, err = python(
        LEFT_OPEN.format(extra="cenote.shutdown()")
        + "for use in (lambda: pool.alloc(5), blocks[0].free, lambda: cenote.poll()):\n"
        + "    try: use()\n"
        + "    except cenote.ShutdownError as e: print(e.name)\n"
    )
    assert (code, err) == (0, "")
    assert out.split() == ["CENOTE_E_SHUTDOWN"] * 3


def test_fork(python):
    code, out, err = python(
        LEFT_OPEN.format(extra="import os, sys")
        + "child = os.fork()\n"
        + "if child == 0:\n"
        + "    try: pool.alloc(5)\n"
        + "    except cenote.ForkedError: print('forked', flush=True)\n"
        + "    blocks.clear()\n"
        + "    sys.exit(0)\n"
        + "print(os.waitpid(child, 0)[1], len(blocks), pool.stats.live_blocks)\n"
    )
    assert (code, err) == (0, "")
    assert out.split() == ["forked", "0", "20", "21"]


def test_second_copy(python, tmp_path):
    first, second = tmp_path / "a" / "libcenote.so.0", tmp_path / "b" / "libcenote.so.0"
    for path in (first, second):
        path.parent.mkdir()
        shutil.copy(cenote.library_path(), path)
    code, out, err = python(
        "import ctypes\n"
        f"copies = [ctypes.CDLL({str(first)!r}), ctypes.CDLL({str(second)!r})]\n"
        "for lib in copies:\n"
        "    lib.cenote_alloc.argtypes = [ctypes.c_uint64] * 2 + [ctypes.c_void_p] * 2\n"
        "    ptr = ctypes.c_void_p()\n"
        "    print(lib.cenote_alloc(0, 1000, None, ctypes.byref(ptr)), ptr.value is None)\n"
        "    lib.cenote_free.argtypes = [ctypes.c_void_p] * 2\n"
    )
    assert (code, err) == (0, "")
    assert out.split() == ["0", "False", "4003", "True"]
    assert os.path.exists(cenote.library_path())
