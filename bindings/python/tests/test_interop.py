"""Arrays: NumPy's interface, DLPack, and what must not be offered."""

import ctypes
import gc

import pytest

import cenote

numpy = pytest.importorskip("numpy")


def test_numpy_view(pool, host_visible):
    block = pool.alloc(4000)
    array = numpy.asarray(block.array(dtype="float32"))
    assert array.shape == (1000,) and array.dtype == numpy.float32
    array[:] = numpy.arange(1000)
    assert numpy.asarray(block).nbytes == 4000
    assert numpy.asarray(block.array((10, 100), "<f4"))[9, 99] == 999
    assert numpy.asarray(block.array(dtype=numpy.dtype("i8"), offset=8)).shape == (499,)
    assert numpy.asarray(block.array(dtype=numpy.uint16)).dtype == numpy.uint16


def test_a_view_keeps_the_block(pool, host_visible):
    array = numpy.asarray(pool.alloc(4000))
    gc.collect()
    assert pool.stats.live_blocks == 1
    array[:] = 1
    del array
    gc.collect()
    assert pool.stats.live_blocks == 0


def test_dlpack(pool, host_visible):
    block = pool.alloc(4000)
    array = numpy.from_dlpack(block.array((10, 100), "float32"))
    assert array.shape == (10, 100) and array.dtype == numpy.float32
    assert block.__dlpack_device__() == (1, 0)
    assert array.__array_interface__["data"][0] == block.ptr
    with pytest.raises(cenote.PinnedError):
        block.free()
    del array
    gc.collect()
    assert block.info.pin_count == 0
    block.free()


def test_dlpack_keeps_the_block(pool, host_visible):
    array = numpy.from_dlpack(pool.alloc(4000))
    gc.collect()
    assert pool.stats.live_blocks == 1 and array.shape == (4000,)
    del array
    gc.collect()
    assert pool.stats.live_blocks == 0


@pytest.mark.parametrize("version", [None, (1, 0), (0, 8)])
def test_a_capsule_that_nobody_takes(pool, host_visible, version):
    block = pool.alloc(100)
    capsule = block.__dlpack__(max_version=version)
    name = "dltensor_versioned" if version == (1, 0) else "dltensor"
    assert name in repr(capsule)
    assert block.info.pin_count == 1
    del capsule
    assert block.info.pin_count == 0
    block.free()


def test_dlpack_refusals(pool, host_visible):
    block = pool.alloc(100)
    for arguments in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 7}):
        with pytest.raises(BufferError):
            block.__dlpack__(**arguments)
    block.free()


def test_empty(pool):
    block = pool.alloc(0)
    assert numpy.asarray(block).shape == (0,)
    assert numpy.from_dlpack(block).shape == (0,)
    block.free()


@pytest.mark.parametrize(
    ("shape", "dtype", "offset"),
    [((101,), "u1", 0), (None, "u1", 101), (None, "f4", 2), ((-1,), "u1", 0), ((26,), "f4", 0)],
)
def test_shapes_refused(pool, shape, dtype, offset):
    with pool.alloc(100) as block:
        with pytest.raises(ValueError):
            block.array(shape, dtype, offset)


@pytest.mark.parametrize("dtype", ["O", "|S8", ">f4", "float", object, None, 4, "f3", ""])
def test_types_refused(pool, dtype):
    with pool.alloc(100) as block:
        with pytest.raises(TypeError):
            block.array(dtype=dtype)


def test_no_cuda_interface_on_the_host(pool):
    if cenote.info().backend == "cuda":
        pytest.skip("this is a device's memory")
    with pool.alloc(100) as block:
        assert not hasattr(block, "__cuda_array_interface__")


class PretendBlock:
    """A block of device memory, as the interfaces see it, where there is none."""

    ptr, size, stream = 0x7F0000000000, 4096, None

    class info:
        host_ptr, device, kind = None, 3, "device"


def test_cuda_interface(monkeypatch):
    monkeypatch.setattr("cenote.order.backend", lambda: "cuda")
    array = cenote.Array(PretendBlock(), (2, 512), "f4", 0)
    interface = array.__cuda_array_interface__
    assert interface["version"] == 3 and interface["stream"] == 1
    assert interface["data"] == (PretendBlock.ptr, False)
    assert (interface["shape"], interface["typestr"]) == ((2, 512), "<f4")
    assert array.__dlpack_device__() == (2, 3)
    assert not hasattr(array, "__array_interface__")
    with pytest.raises(BufferError):
        array.__dlpack__(stream=0)


def test_interface_without_numpy(pool, host_visible):
    with pool.alloc(16) as block:
        ptr, readonly = block.__array_interface__["data"]
        assert not readonly
        (ctypes.c_uint8 * 16).from_address(ptr)[15] = 9
        assert (ctypes.c_uint8 * 16).from_address(block.info.host_ptr)[15] == 9
