"""One library, one process, three languages.

Python (the package), a C++ shared library and a Go shared library allocate from the same default
pool, free what another language allocated, and see the same statistics. ONEPROCESS_LIBS names the
folder of liboneprocess_cpp.so and liboneprocess_go.so; tests/oneprocess/run.sh builds them.
"""

import ctypes
import itertools
import os
import pathlib

import pytest

import cenote

LIBRARIES = pathlib.Path(os.environ["ONEPROCESS_LIBS"])


class Foreign:
    """The three functions of a language's shared library."""

    def __init__(self, language):
        library = ctypes.CDLL(str(LIBRARIES / f"liboneprocess_{language}.so"))
        self.alloc = getattr(library, f"{language}_alloc")
        self.alloc.restype, self.alloc.argtypes = ctypes.c_void_p, [ctypes.c_uint64]
        self.free = getattr(library, f"{language}_free")
        self.free.restype, self.free.argtypes = ctypes.c_int32, [ctypes.c_void_p]
        self.live_blocks = getattr(library, f"{language}_live_blocks")
        self.live_blocks.restype = ctypes.c_uint64
        self.library = library


class Python:
    """The same three by the package."""

    def alloc(self, size):
        return cenote.alloc(size, device=0).release()

    def free(self, ptr):
        try:
            cenote.free(ptr)
        except cenote.Error as error:
            return error.status
        return 0

    def live_blocks(self):
        return cenote.default_pool(0).stats.live_blocks


@pytest.fixture(scope="module")
def languages():
    found = {"python": Python()}
    for language in ("cpp", "go"):
        if (LIBRARIES / f"liboneprocess_{language}.so").exists():
            found[language] = Foreign(language)
        else:
            print(f"oneprocess: skipped {language}: its library was not built")
    if len(found) < 2:
        pytest.skip("neither the C++ nor the Go library was built")
    return found


def mappings():
    """The library's files that are mapped into this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if "libcenote" in line}


def test_one_copy(languages):
    for language in languages.values():
        ptr = language.alloc(100)
        assert ptr and language.free(ptr) == 0
    assert len(mappings()) == 1
    if "cpp" in languages:
        where = languages["cpp"].library.cpp_library
        where.restype = ctypes.c_void_p
        ours = ctypes.cast(cenote._load.lib.cenote_alloc, ctypes.c_void_p).value
        assert where() == ours


def test_freed_in_another_language(languages):
    before = cenote.default_pool(0).stats
    pairs = list(itertools.permutations(languages, 2))
    for giver, taker in pairs:
        ptr = languages[giver].alloc(1000)
        seen = {name: language.live_blocks() for name, language in languages.items()}
        assert set(seen.values()) == {before.live_blocks + 1}, (giver, taker)
        assert languages[taker].free(ptr) == 0
        # A second free is caught, in whatever language it is tried.
        for language in languages.values():
            assert language.free(ptr) == 1012
    after = cenote.default_pool(0).stats
    assert after.alloc_count - before.alloc_count == len(pairs)
    assert after.free_count - before.free_count == len(pairs)
    assert after.live_bytes == before.live_bytes
    assert after.live_blocks == before.live_blocks


def test_the_sum_of_all(languages):
    before = cenote.default_pool(0).stats
    blocks = []
    for size, language in enumerate(itertools.islice(itertools.cycle(languages.values()), 300), 1):
        blocks.append((size * 100, language.alloc(size * 100)))
    now = cenote.default_pool(0).stats
    assert now.live_blocks - before.live_blocks == 300
    assert now.live_bytes - before.live_bytes == sum(size for size, _ in blocks)
    assert len({ptr for _, ptr in blocks}) == 300
    others = itertools.cycle(reversed(list(languages.values())))
    for _, ptr in blocks:
        assert next(others).free(ptr) == 0
    assert cenote.default_pool(0).stats.live_bytes == before.live_bytes
