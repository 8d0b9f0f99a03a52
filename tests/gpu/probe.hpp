// Tools of the probe: questions, captures and memory that clean up after themselves.
#pragma once
#include <cuda.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace probe {

// A question is asked on a new thread with the device's primary context current.
struct Question {
    std::string name;
    // Ends its process afterwards: the call may leave the driver in an unknown state.
    bool alone;
    std::function<std::string()> ask;
};

inline std::string number(long long n) { return std::to_string(n); }

inline std::string code(const char *what, CUresult r) {
    return std::string(what) + (*what ? " " : "") + number(r) + " ";
}

inline const char *mode_name(int mode) {
    static const char *const NAMES[] = {"GLOBAL", "THREAD_LOCAL", "RELAXED"};
    return NAMES[mode];
}

// Exchanges the mode in which the calling thread treats captures, for a scope.
class ThreadMode {
public:
    explicit ThreadMode(CUstreamCaptureMode mode) : mode_(mode) {
        cuThreadExchangeStreamCaptureMode(&mode_);
    }
    ~ThreadMode() { cuThreadExchangeStreamCaptureMode(&mode_); }
    ThreadMode(const ThreadMode &) = delete;
    ThreadMode &operator=(const ThreadMode &) = delete;

private:
    CUstreamCaptureMode mode_;
};

inline CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream s = nullptr;
    cuStreamCreate(&s, flags);
    return s;
}

inline CUevent new_event() {
    CUevent e = nullptr;
    cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
    return e;
}

// A stream that captures. Nothing is captured in it but what a question does.
class Capture {
public:
    explicit Capture(int mode, unsigned flags = CU_STREAM_NON_BLOCKING)
        : stream(new_stream(flags)),
          begun_(cuStreamBeginCapture(stream, CUstreamCaptureMode(mode))) {}
    ~Capture() {
        if (!owned) return;
        end();
        cuStreamDestroy(stream);
    }
    Capture(const Capture &) = delete;
    Capture &operator=(const Capture &) = delete;

    // Ends the capture and says what had become of it: its state is 1 while it is intact, 2 once
    // it is broken.
    std::string fate() {
        if (begun_ != 0) return code("did not begin:", begun_);
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        CUresult asked = cuStreamIsCapturing(stream, &status), ended = end();
        if (asked == 0 && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && ended == 0) return "intact ";
        std::string state = asked == 0 ? "state " + number(status) : code("state refused", asked);
        return state + code(", end", ended);
    }

    CUstream stream;
    // False once the question destroyed the stream.
    bool owned = true;

private:
    CUresult end() {
        if (begun_ != 0 || ended_) return CUDA_SUCCESS;
        ended_ = true;
        CUgraph graph = nullptr;
        CUresult r = cuStreamEndCapture(stream, &graph);
        if (graph) cuGraphDestroy(graph);
        return r;
    }

    CUresult begun_;
    bool ended_ = false;
};

// A stream and two events that take no part in a capture; `done` was recorded.
struct Bystander {
    CUstream stream = new_stream();
    CUevent fresh = new_event(), done = new_event();
    Bystander() {
        cuEventRecord(done, stream);
        cuStreamSynchronize(stream);
    }
    ~Bystander() {
        if (fresh) cuEventDestroy(fresh);
        cuEventDestroy(done);
        if (stream) cuStreamDestroy(stream);
    }
    Bystander(const Bystander &) = delete;
    Bystander &operator=(const Bystander &) = delete;
};

// A call by name, on a bystander.
struct Call {
    const char *name;
    std::function<CUresult(Bystander &)> make;
};

// The calls on streams and events that a memory manager makes or meets.
inline std::vector<Call> stream_calls() {
    using B = Bystander;
    static unsigned long long id;
    static CUstreamCaptureStatus status;
    static CUcontext context;
    return {
        {"cuStreamGetId", [](B &b) { return cuStreamGetId(b.stream, &id); }},
        {"cuStreamGetId legacy", [](B &) { return cuStreamGetId(CU_STREAM_LEGACY, &id); }},
        {"cuStreamGetId per thread", [](B &) { return cuStreamGetId(CU_STREAM_PER_THREAD, &id); }},
        {"cuStreamIsCapturing", [](B &b) { return cuStreamIsCapturing(b.stream, &status); }},
        {"cuStreamIsCapturing legacy",
         [](B &) { return cuStreamIsCapturing(CU_STREAM_LEGACY, &status); }},
        {"cuStreamGetCtx", [](B &b) { return cuStreamGetCtx(b.stream, &context); }},
        {"cuStreamQuery", [](B &b) { return cuStreamQuery(b.stream); }},
        {"cuStreamSynchronize", [](B &b) { return cuStreamSynchronize(b.stream); }},
        {"cuStreamWaitEvent", [](B &b) { return cuStreamWaitEvent(b.stream, b.done, 0); }},
        {"cuStreamCreate and destroy",
         [](B &) {
             CUstream s = nullptr;
             CUresult r = cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
             return r == 0 ? cuStreamDestroy(s) : r;
         }},
        {"cuStreamDestroy",
         [](B &b) {
             CUresult r = cuStreamDestroy(b.stream);
             if (r == 0) b.stream = nullptr;
             return r;
         }},
        {"cuEventCreate",
         [](B &) {
             CUevent e = nullptr;
             return cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
         }},
        {"cuEventRecord", [](B &b) { return cuEventRecord(b.fresh, b.stream); }},
        {"cuEventQuery", [](B &b) { return cuEventQuery(b.done); }},
        {"cuEventSynchronize", [](B &b) { return cuEventSynchronize(b.done); }},
        {"cuEventDestroy",
         [](B &b) {
             CUresult r = cuEventDestroy(b.fresh);
             if (r == 0) b.fresh = nullptr;
             return r;
         }},
        {"cuCtxGetCurrent", [](B &) { return cuCtxGetCurrent(&context); }},
        {"cuCtxSynchronize", [](B &) { return cuCtxSynchronize(); }},
        {"cuMemGetInfo",
         [](B &) {
             size_t free = 0, total = 0;
             return cuMemGetInfo(&free, &total);
         }},
    };
}

// Physical memory and addresses, as the calls of virtual memory management want them.
inline CUmemAllocationProp device_memory() {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

inline size_t page() {
    CUmemAllocationProp prop = device_memory();
    size_t bytes = 0;
    cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return bytes ? bytes : size_t(2) << 20;
}

inline CUresult create(size_t bytes, CUmemGenericAllocationHandle *handle) {
    CUmemAllocationProp prop = device_memory();
    return cuMemCreate(handle, bytes, &prop, 0);
}

inline CUresult allow(CUdeviceptr at, size_t bytes) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return cuMemSetAccess(at, bytes, &access, 1);
}

} // namespace probe
