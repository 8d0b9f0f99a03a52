// The other half, compiled for the per-thread default stream: its default stream is 2, and the
// first half's stays 0, although both call functions of the same source.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "cenote.hpp"

void* other_file_stream();
bool other_file_uses_cenote();

void* other_file_stream() { return cenote::stream_view().get(); }

bool other_file_uses_cenote() {
    return cenote::buffer<int>::allocate(4).has_value() &&
           cenote::stream_view(nullptr) == cenote::stream_view::per_thread_default();
}
