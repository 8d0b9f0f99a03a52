"""The generated tables against the library and against each other."""

import ctypes
import dataclasses

import pytest

import cenote
from cenote import _abi, errors
from cenote._load import lib


@pytest.mark.parametrize("struct", list(_abi.LAYOUTS), ids=lambda s: s.__name__)
def test_layout(struct):
    size, offsets = _abi.LAYOUTS[struct]
    assert ctypes.sizeof(struct) == size
    assert {name: getattr(struct, name).offset for name in offsets} == offsets


def test_every_function_exists():
    for name in _abi.PROTOTYPES:
        assert getattr(lib, name)


def test_every_status_is_known_to_the_library():
    for status, (name, _) in _abi.STATUSES.items():
        assert lib.cenote_status_name(status).decode() == name
    assert lib.cenote_status_name(123456) == b"CENOTE_E_UNKNOWN"


def test_every_status_has_an_exception_of_its_own():
    failures = set(_abi.STATUSES) - {0}
    assert set(errors.BY_STATUS) == failures
    assert len(set(errors.BY_STATUS.values())) == len(failures)
    for made in errors.BY_STATUS.values():
        assert getattr(cenote, made.__name__) is made


def test_an_unknown_status_keeps_its_family():
    assert errors.class_of(1999) is errors.ArgumentError
    assert errors.class_of(2999) is errors.OutOfMemoryError
    assert errors.class_of(8888) is errors.InternalError


def test_statistics_have_every_field():
    wanted = [name for name, _ in _abi.cenote_pool_stats_t._fields_]
    fields = [field.name for field in dataclasses.fields(cenote.PoolStats)]
    assert fields == [name for name in wanted if name not in ("struct_size", "reserved")]
