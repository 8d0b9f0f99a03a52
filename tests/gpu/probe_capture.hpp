// Questions about captures and contexts: a to e.
#pragma once
#include "probe.hpp"

namespace probe {

// Asks for the id of a captured stream and looks what became of the capture.
inline std::string id_while_captured(int mode, bool relaxed, bool elsewhere, bool broken) {
    Capture capture(mode);
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    if (broken) cuStreamQuery(capture.stream);
    CUresult asked = CUDA_SUCCESS;
    auto question = [&] {
        unsigned long long id = 0;
        cuCtxSetCurrent(context);
        if (relaxed) {
            ThreadMode inside(CU_STREAM_CAPTURE_MODE_RELAXED);
            asked = cuStreamGetId(capture.stream, &id);
        } else {
            asked = cuStreamGetId(capture.stream, &id);
        }
    };
    if (elsewhere) std::thread(question).join();
    else question();
    return code("id", asked) + capture.fate();
}

// a and b: the id of a stream that is captured.
inline void ask_ids_of_captured_streams(std::vector<Question> &all) {
    for (int mode = 0; mode < 3; ++mode) {
        std::string in = std::string(mode_name(mode)) + ": id of the captured stream";
        auto add = [&](const char *letter, const char *how, bool relaxed, bool there, bool broken) {
            all.push_back({letter + in + how, false,
                           [=] { return id_while_captured(mode, relaxed, there, broken); }});
        };
        add("a ", "", false, false, false);
        add("a ", ", other thread", false, true, false);
        add("a ", ", broken before", false, false, true);
        add("b ", ", thread relaxed", true, false, false);
        add("b ", ", other thread, relaxed", true, true, false);
    }
    all.push_back({"a id of a forked stream that joined", false, [] {
                       Capture capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
                       CUstream side = new_stream();
                       CUevent out = new_event(), back = new_event();
                       unsigned long long id = 0;
                       cuEventRecord(out, capture.stream);
                       cuStreamWaitEvent(side, out, 0);
                       CUresult asked = cuStreamGetId(side, &id);
                       cuEventRecord(back, side);
                       cuStreamWaitEvent(capture.stream, back, 0);
                       std::string answer = code("id", asked) + capture.fate();
                       cuStreamDestroy(side);
                       return answer;
                   }});
}

// One call on a thread that knows nothing of the capture under way on another.
inline std::string beside(const Call &call, unsigned flags) {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    Bystander bystander;
    Capture capture(CU_STREAM_CAPTURE_MODE_GLOBAL, flags);
    CUresult got = CUDA_SUCCESS;
    std::thread([&] {
        cuCtxSetCurrent(context);
        got = call.make(bystander);
    }).join();
    return code("", got) + capture.fate();
}

// c: another thread captures in GLOBAL mode.
inline void ask_beside_a_capture(std::vector<Question> &all) {
    for (const Call &call : stream_calls())
        all.push_back({std::string("c GLOBAL capture elsewhere: ") + call.name, false, [call] {
                           return "non-blocking: " + beside(call, CU_STREAM_NON_BLOCKING) +
                                  "| blocking: " + beside(call, CU_STREAM_DEFAULT);
                       }});
}

// Makes one call with no context current and gives its code.
inline std::string bare(const std::function<CUresult()> &call) {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    cuCtxSetCurrent(nullptr);
    CUresult got = call();
    cuCtxSetCurrent(context);
    return code("", got);
}

// The whole life of a mapping with no context current.
inline std::string bare_memory() {
    size_t size = page();
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle handle = 0;
    std::string answer = "reserve " + bare([&] { return cuMemAddressReserve(&at, size, 0, 0, 0); });
    if (!at) cuMemAddressReserve(&at, size, 0, 0, 0);
    answer += "create " + bare([&] { return create(size, &handle); });
    if (!handle) create(size, &handle);
    CUresult mapped = CUDA_SUCCESS, allowed = CUDA_SUCCESS;
    answer += "map " + bare([&] { return mapped = cuMemMap(at, size, 0, handle, 0); });
    if (mapped) cuMemMap(at, size, 0, handle, 0);
    answer += "access " + bare([&] { return allowed = allow(at, size); });
    if (allowed) allow(at, size);
    CUresult unmapped = CUDA_SUCCESS, released = CUDA_SUCCESS, freed = CUDA_SUCCESS;
    answer += "unmap " + bare([&] { return unmapped = cuMemUnmap(at, size); });
    if (unmapped) cuMemUnmap(at, size);
    answer += "release " + bare([&] { return released = cuMemRelease(handle); });
    if (released) cuMemRelease(handle);
    answer += "free " + bare([&] { return freed = cuMemAddressFree(at, size); });
    if (freed) cuMemAddressFree(at, size);
    return answer;
}

// d: what works with no current context.
inline void ask_without_a_context(std::vector<Question> &all) {
    all.push_back({"d no context: virtual memory", false, bare_memory});
    for (const Call &call : stream_calls())
        all.push_back({std::string("d no context: ") + call.name, false, [call] {
                           Bystander bystander;
                           return bare([&] { return call.make(bystander); });
                       }});
    all.push_back({"d no context: exchange of the thread's capture mode", false, [] {
                       return bare([] {
                           CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
                           return cuThreadExchangeStreamCaptureMode(&mode);
                       });
                   }});
    all.push_back({"d no context: cuMemsetD8Async", false, [] {
                       Bystander bystander;
                       size_t size = page();
                       CUdeviceptr at = 0;
                       CUmemGenericAllocationHandle handle = 0;
                       cuMemAddressReserve(&at, size, 0, 0, 0);
                       create(size, &handle);
                       cuMemMap(at, size, 0, handle, 0);
                       allow(at, size);
                       auto fill = [&] { return cuMemsetD8Async(at, 1, 64, bystander.stream); };
                       std::string answer = bare(fill);
                       cuStreamSynchronize(bystander.stream);
                       cuMemUnmap(at, size);
                       cuMemRelease(handle);
                       cuMemAddressFree(at, size);
                       return answer;
                   }});
}

// One call by the thread that captures, on a bystander.
inline std::string during(const Call &call, int mode, bool relaxed) {
    Bystander bystander;
    Capture capture(mode);
    CUresult got = CUDA_SUCCESS;
    if (relaxed) {
        ThreadMode inside(CU_STREAM_CAPTURE_MODE_RELAXED);
        got = call.make(bystander);
    } else {
        got = call.make(bystander);
    }
    return code("", got) + capture.fate();
}

// Destroys a stream while it captures, and looks whether a capture is left behind.
inline std::string destroy_captured(int mode) {
    Capture capture(mode);
    CUresult destroyed = cuStreamDestroy(capture.stream);
    if (destroyed == CUDA_SUCCESS) capture.owned = false;
    std::string answer = code("destroy", destroyed);
    if (capture.owned) answer += capture.fate();
    Bystander after;
    return answer + code("event query afterwards", cuEventQuery(after.done));
}

// e: what the capturing thread may do elsewhere.
inline void ask_during_own_capture(std::vector<Question> &all) {
    for (const Call &call : stream_calls())
        all.push_back({std::string("e own capture: ") + call.name, false, [call] {
                           return "GLOBAL: " + during(call, 0, false) +
                                  "| THREAD_LOCAL: " + during(call, 1, false) +
                                  "| GLOBAL, relaxed: " + during(call, 0, true);
                       }});
    for (int mode = 0; mode < 3; ++mode)
        all.push_back({std::string("e ") + mode_name(mode) + ": cuStreamDestroy of its stream",
                       true, [mode] { return destroy_captured(mode); }});
}

} // namespace probe
