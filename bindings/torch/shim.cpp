// Hooks for torch.cuda.memory.CUDAPluggableAllocator as the allocator of the whole process.
//
// PyTorch does not look at the pointer that a pluggable allocator returns: NULL becomes a tensor at
// address 0. Only a C++ exception reaches Python as torch.OutOfMemoryError, and only if it is
// c10::OutOfMemoryError, so this small library is compiled against the PyTorch it serves:
//
//   T=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')
//   g++ -O2 -std=c++20 -shared -fPIC -I$T/include shim.cpp -o libcenote_torch.so
//       -L$T/lib -lc10 -Wl,-rpath,$T/lib -ldl
//
// Everything but the exception is cenote's own: the other hooks (record_stream, reset,
// memory_fraction, base_alloc) are taken from libcenote.so.0 directly.
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/types.h>

namespace {

// The part of the C ABI that is needed here; names and layout as in cenote.h.
struct Error {
    uint32_t struct_size;
    int32_t status;
    int32_t backend_code;
    uint32_t reserved;
    uint64_t wanted_bytes;
    uint64_t available_bytes;
    char message[256];
};

constexpr uint32_t ABI_VERSION = 1;
constexpr int32_t MEMORY_FIRST = 2000, MEMORY_LAST = 2999;

struct Library {
    void *(*alloc)(ssize_t, int, void *) = nullptr;
    void (*free)(void *, ssize_t, int, void *) = nullptr;
    int32_t (*last_error)(Error *) = nullptr;
    const char *(*status_name)(int32_t) = nullptr;
    std::string problem;

    Library() {
        void *handle = open();
        if (handle == nullptr) return;
        auto abi = reinterpret_cast<uint32_t (*)()>(dlsym(handle, "cenote_abi_version"));
        if (abi == nullptr || abi() != ABI_VERSION) {
            problem = "the loaded libcenote.so.0 is of another ABI generation";
            return;
        }
        find(handle, "cenote_torch_alloc", alloc);
        find(handle, "cenote_torch_free", free);
        find(handle, "cenote_last_error", last_error);
        find(handle, "cenote_status_name", status_name);
    }

    // One copy a process: a library that is already loaded comes first.
    void *open() {
        void *handle = dlopen("libcenote.so.0", RTLD_NOW | RTLD_NOLOAD);
        const char *path = std::getenv("CENOTE_LIBRARY");
        if (handle == nullptr && path != nullptr) handle = dlopen(path, RTLD_NOW);
        if (handle == nullptr) handle = dlopen("libcenote.so.0", RTLD_NOW);
        if (handle == nullptr)
            problem = std::string("libcenote.so.0 was not found; set CENOTE_LIBRARY: ") + dlerror();
        return handle;
    }

    template <class F> void find(void *handle, const char *name, F &function) {
        function = reinterpret_cast<F>(dlsym(handle, name));
        if (function == nullptr) problem = std::string("libcenote.so.0 lacks ") + name;
    }
};

// Never destroyed: PyTorch frees blocks until the process ends.
Library &library() {
    static Library *the_one = new Library();
    return *the_one;
}

[[noreturn]] void fail(const Library &lib, ssize_t size_bytes, int device) {
    Error e;
    std::memset(&e, 0, sizeof e);
    e.struct_size = sizeof e;
    lib.last_error(&e);
    e.message[sizeof e.message - 1] = '\0';
    const char *name = lib.status_name(e.status);
    TORCH_CHECK_WITH(OutOfMemoryError, e.status < MEMORY_FIRST || e.status > MEMORY_LAST,
                     "CUDA out of memory. Tried to allocate ", size_bytes, " bytes on device ",
                     device, ". ", name, ": ", e.message);
    TORCH_CHECK(false, "cenote could not allocate ", size_bytes, " bytes on device ", device, ". ",
                name, ": ", e.message);
    std::abort(); // not reached: the line above throws
}

} // namespace

extern "C" __attribute__((visibility("default"))) void *
cenote_shim_alloc(ssize_t size_bytes, int device, void *stream) {
    Library &lib = library();
    TORCH_CHECK(lib.problem.empty(), "cenote: ", lib.problem);
    void *p = lib.alloc(size_bytes, device, stream);
    if (p == nullptr && size_bytes > 0) fail(lib, size_bytes, device);
    return p;
}

extern "C" __attribute__((visibility("default"))) void
cenote_shim_free(void *p, ssize_t size_bytes, int device, void *stream) {
    Library &lib = library();
    if (lib.free != nullptr) lib.free(p, size_bytes, device, stream);
}
