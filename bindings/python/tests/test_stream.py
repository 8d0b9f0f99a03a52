"""Streams: everything that names one, registrations."""

import ctypes

import pytest

import cenote
from cenote.stream import PER_THREAD, Stream, handle_of


class Torch:
    cuda_stream = 2


class CuPy:
    ptr = 2


class Numba:
    handle = ctypes.c_void_p(2)


class NumbaDefault:
    handle = ctypes.c_void_p(0)


class CudaCore:
    def __cuda_stream__(self):
        return (0, 2)


class CudaBindings:
    def __int__(self):
        return 2


@pytest.mark.parametrize("kind", [Torch, CuPy, Numba, CudaCore, CudaBindings])
def test_streams_of_others(pool, kind):
    assert handle_of(kind()) == 2
    stream = kind()
    block = pool.alloc(100, stream)
    assert block.stream is stream
    block.record_stream(kind())
    block.free(kind())


def test_numbers():
    assert handle_of(None) == 0
    assert handle_of(PER_THREAD) == 2
    assert handle_of(NumbaDefault()) == 0
    with pytest.raises(TypeError):
        handle_of("stream")
    with pytest.raises(TypeError):
        handle_of(object())


def test_registered(pool):
    with Stream(device=0) as stream:
        block = pool.alloc(100, stream)
        block.free()
        assert stream.raw == 0
    assert stream.closed
    stream.close()
    with pytest.raises(cenote.ClosedError):
        pool.alloc(100, stream)
    with pytest.raises(cenote.NoSuchDeviceError):
        Stream(device=999)


def test_a_block_keeps_its_stream(pool):
    block = pool.alloc(100, Stream(device=0))
    assert not block.stream.closed
    block.free()


def test_a_retired_stream_frees_nothing(pool):
    stream = Stream(device=0)
    block = pool.alloc(100, stream)
    stream.close()
    with pytest.raises(cenote.StreamError):
        block.free()
    assert not block.closed
    block.free(0)


def test_set_stream(pool):
    block = pool.alloc(100)
    block.stream = PER_THREAD
    assert block.stream == PER_THREAD
    block.free()


def test_recorded_use(pool):
    with pool.alloc(100) as block:
        block.record_stream(PER_THREAD)
        block.use_end(PER_THREAD)


def test_use_end_needs_a_recorded_use(pool):
    if cenote.info().backend == "host":
        pytest.skip("uses are not kept where every call is finished when it returns")
    with pool.alloc(100) as block:
        with pytest.raises(cenote.NotRecordedError):
            block.use_end(PER_THREAD)


def test_told_capture(pool):
    with Stream(device=0, capture_told=True) as stream:
        stream.capture_begin()
        graph = stream.capture_end()
        cenote.release_graph(graph)
    with pytest.raises(cenote.GraphError):
        cenote.release_graph(987654321)
