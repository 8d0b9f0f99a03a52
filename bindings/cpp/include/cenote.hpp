// cenote.hpp: cenote for C++17, header-only.
//
//     cenote::pool_options options;
//     options.limit_bytes = 8_GiB;
//     auto pool = cenote::pool::create(options);
//     auto buf  = cenote::buffer<float>::allocate(1 << 20, stream, *pool);
//     if (!buf) return fail(buf.error().message());
//     kernel<<<grid, block, 0, stream>>>(buf->data(), buf->size());
//                                          // freed in stream order when buf leaves its scope
//
// Every call that can fail gives a result: test it, or let value() throw cenote::error. Handles are
// move-only and free what they own. Views (pool_view, stream_view) own nothing and are copied
// freely.
//
// Two ways to use it. Linked: link libcenote (CMake target cenote::cenote, or pkg-config cenote).
// Without a link step: define CENOTE_DL before including it (CMake target cenote::dl); the library
// is then opened at the first call (see cenote_dl.h), and CENOTE_E_NO_LIBRARY is the answer of
// every call where it is absent.
//
// Threads: every function may be called from any thread; one object must not be changed by two
// threads at once. Destructors never throw, and do nothing harmful at process exit.
#ifndef CENOTE_HPP
#define CENOTE_HPP

#include "cenote/base.hpp"
#include "cenote/buffer.hpp"
#include "cenote/memory_resource.hpp"
#include "cenote/pool.hpp"
#include "cenote/runtime.hpp"
#include "cenote/stream.hpp"

#endif  // CENOTE_HPP
