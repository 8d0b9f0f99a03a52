// Questions about the cost of calls: g.
#pragma once
#include "probe.hpp"

#include <algorithm>
#include <chrono>

namespace probe {

// Nanoseconds a call, the best of five rounds; between rounds the stream is emptied.
inline std::string cost(CUstream stream, int calls, const std::function<CUresult()> &call) {
    using Clock = std::chrono::steady_clock;
    double best = 1e30;
    CUresult got = CUDA_SUCCESS;
    for (int round = 0; round < 5; ++round) {
        auto start = Clock::now();
        for (int i = 0; i < calls; ++i) got = call();
        std::chrono::duration<double, std::nano> spent = Clock::now() - start;
        best = std::min(best, spent.count() / calls);
        cuStreamSynchronize(stream);
    }
    char text[64];
    std::snprintf(text, sizeof text, "%8.1f ns, code %d", best, int(got));
    return text;
}

// g: what may be asked on a fast path.
inline void ask_costs(std::vector<Question> &all) {
    static const char *const FAST[] = {
        "cuStreamGetId",      "cuStreamGetId legacy", "cuStreamGetId per thread",
        "cuStreamIsCapturing", "cuStreamGetCtx",      "cuCtxGetCurrent",
        "cuEventRecord",      "cuEventQuery",         "cuStreamWaitEvent",
        "cuMemGetInfo",       "no call, part of each figure"};
    std::vector<Call> calls = stream_calls();
    calls.push_back({"no call, part of each figure", [](Bystander &) { return CUDA_SUCCESS; }});
    for (const Call &call : calls) {
        auto same = [&](const char *name) { return std::string(name) == call.name; };
        if (std::none_of(std::begin(FAST), std::end(FAST), same)) continue;
        all.push_back({std::string("g cost of ") + call.name, false, [call] {
                           Bystander b;
                           return cost(b.stream, 20000, [&] { return call.make(b); });
                       }});
    }
    all.push_back({"g cost of an exchange of the thread's capture mode", false, [] {
                       Bystander b;
                       CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
                       // An even number of exchanges: the thread is left as it was.
                       return cost(b.stream, 20000,
                                   [&] { return cuThreadExchangeStreamCaptureMode(&mode); });
                   }});
    all.push_back({"g cost of cuStreamIsCapturing while captured", false, [] {
                       Capture capture(CU_STREAM_CAPTURE_MODE_RELAXED);
                       Bystander b;
                       CUstreamCaptureStatus status;
                       return cost(b.stream, 20000, [&] {
                           return cuStreamIsCapturing(capture.stream, &status);
                       });
                   }});
}

} // namespace probe
