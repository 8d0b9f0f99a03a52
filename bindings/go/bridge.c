/* See bridge.h. Built with CENOTE_GO_LINK the calls are linked, else they go through a table that
 * is filled once, at the first call. */
#include "bridge.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef CENOTE_GO_LINK

#define CALL(name, ...) name(__VA_ARGS__)
#define ENTER() (CENOTE_OK)

static void describe_load(cenote_error *error) { (void)error; }

#else

#include "cenote_dl.h"

static cenote_dl_api library;
static cenote_status library_status;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void load(void) { library_status = cenote_dl_open(&library); }

static cenote_status enter(void) {
    (void)pthread_once(&library_once, load);
    return library_status;
}

#define CALL(name, ...) library.name(__VA_ARGS__)
#define ENTER() enter()

static void describe_load(cenote_error *error) {
    if (library_status != CENOTE_OK) {
        memcpy(error->message, library.message, sizeof error->message);
    }
}

#endif

/* The result of a call that has just returned on this thread. */
static cenote_go_result done(cenote_status status, uint64_t value) {
    cenote_go_result made = {value, NULL, status};
    if (status == CENOTE_OK) {
        return made;
    }
    made.value = 0;
    made.details = calloc(1, sizeof *made.details);
    if (made.details == NULL) {
        return made;
    }
    made.details->struct_size = sizeof *made.details;
    if (ENTER() == CENOTE_OK) {
        (void)CALL(cenote_last_error, made.details);
    }
    if (made.details->status != status) {
        memset(made.details, 0, sizeof *made.details);
        made.details->status = status;
        describe_load(made.details);
    }
    return made;
}

static cenote_stream_t as_stream(uint64_t handle) { return (cenote_stream_t)(uintptr_t)handle; }

static void *as_pointer(uint64_t address) { return (void *)(uintptr_t)address; }

/* Leaves the calling function if there is no library. */
#define NEED_LIBRARY()                        \
    do {                                      \
        cenote_status loaded = ENTER();       \
        if (loaded != CENOTE_OK) {            \
            return done(loaded, 0);           \
        }                                     \
    } while (0)

#define RETURN_CALL(name, ...)                   \
    do {                                         \
        NEED_LIBRARY();                          \
        return done(CALL(name, __VA_ARGS__), 0); \
    } while (0)

cenote_go_result cenote_go_load(void) {
    NEED_LIBRARY();
    return done(CALL(cenote_abi_version) == CENOTE_ABI_VERSION ? CENOTE_OK : CENOTE_E_ABI, 0);
}

cenote_go_result cenote_go_alloc(uint64_t pool, uint64_t size_bytes, uint64_t stream) {
    void *ptr = NULL;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_alloc, pool, size_bytes, as_stream(stream), &ptr);
    return done(status, (uint64_t)(uintptr_t)ptr);
}

cenote_go_result cenote_go_alloc_ex(uint64_t pool, uint64_t size_bytes, uint64_t align_bytes,
                                    uint32_t flags, uint64_t stream) {
    cenote_alloc_desc desc = {sizeof desc, flags, size_bytes, align_bytes};
    void *ptr = NULL;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_alloc_ex, pool, &desc, as_stream(stream), &ptr);
    return done(status, (uint64_t)(uintptr_t)ptr);
}

cenote_go_result cenote_go_free(uint64_t ptr, uint64_t stream) {
    RETURN_CALL(cenote_free, as_pointer(ptr), as_stream(stream));
}

cenote_go_result cenote_go_block_info(uint64_t ptr, cenote_block_info_t *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_block_info, as_pointer(ptr), out);
}

cenote_go_result cenote_go_block_segments(uint64_t ptr, cenote_segment_t *out, uint32_t count) {
    uint32_t there = count;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_block_segments, as_pointer(ptr), out, &there);
    if (status == CENOTE_E_ARGUMENT && there > count) {
        status = CENOTE_OK;
    }
    return done(status, there);
}

cenote_go_result cenote_go_block_pin(uint64_t ptr, int pin) {
    NEED_LIBRARY();
    return done(pin ? CALL(cenote_block_pin, as_pointer(ptr))
                    : CALL(cenote_block_unpin, as_pointer(ptr)), 0);
}

cenote_go_result cenote_go_block_use(uint64_t ptr, uint64_t stream, int begin) {
    NEED_LIBRARY();
    return done(begin ? CALL(cenote_block_record_stream, as_pointer(ptr), as_stream(stream))
                      : CALL(cenote_block_use_end, as_pointer(ptr), as_stream(stream)), 0);
}

cenote_go_result cenote_go_pool_create(const cenote_pool_desc *desc) {
    cenote_pool_desc sized = *desc;
    cenote_pool_t pool = 0;
    sized.struct_size = sizeof sized;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_pool_create, &sized, &pool);
    return done(status, pool);
}

cenote_go_result cenote_go_pool_default(int32_t device) {
    cenote_pool_t pool = 0;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_pool_default, device, &pool);
    return done(status, pool);
}

cenote_go_result cenote_go_pool_destroy(uint64_t pool) { RETURN_CALL(cenote_pool_destroy, pool); }

cenote_go_result cenote_go_pool_trim(uint64_t pool, uint64_t keep_bytes, cenote_trim_result *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_pool_trim, pool, keep_bytes, out);
}

cenote_go_result cenote_go_pool_stats(uint64_t pool, cenote_pool_stats_t *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_pool_stats, pool, out);
}

cenote_go_result cenote_go_pool_reset_peaks(uint64_t pool) {
    RETURN_CALL(cenote_pool_reset_peaks, pool);
}

cenote_go_result cenote_go_stream_register(int32_t device, uint64_t raw, uint32_t promises) {
    cenote_stream_t made = NULL;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_stream_register, device, as_stream(raw), promises, &made);
    return done(status, (uint64_t)(uintptr_t)made);
}

cenote_go_result cenote_go_stream_retire(uint64_t stream) {
    RETURN_CALL(cenote_stream_retire, as_stream(stream));
}

cenote_go_result cenote_go_capture_begin(uint64_t stream) {
    RETURN_CALL(cenote_capture_begin, as_stream(stream));
}

cenote_go_result cenote_go_capture_end(uint64_t stream) {
    cenote_graph_t graph = 0;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_capture_end, as_stream(stream), &graph);
    return done(status, graph);
}

cenote_go_result cenote_go_graph_release(uint64_t graph) {
    RETURN_CALL(cenote_graph_release, graph);
}

cenote_go_result cenote_go_configure(const char *name, const char *value) {
    RETURN_CALL(cenote_configure, name, value);
}

cenote_go_result cenote_go_option_at(uint32_t index, cenote_option_t *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_option_at, index, out);
}

uint32_t cenote_go_option_count(void) {
    return ENTER() == CENOTE_OK ? CALL(cenote_option_count) : 0;
}

cenote_go_result cenote_go_runtime_info(cenote_runtime_info_t *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_runtime_info, out);
}

cenote_go_result cenote_go_device_count(void) {
    uint32_t count = 0;
    NEED_LIBRARY();
    cenote_status status = CALL(cenote_device_count, &count);
    return done(status, count);
}

cenote_go_result cenote_go_device_info(int32_t device, cenote_device_info_t *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_device_info, device, out);
}

cenote_go_result cenote_go_device_limit(int32_t device, uint64_t limit_bytes) {
    RETURN_CALL(cenote_device_limit, device, limit_bytes);
}

cenote_go_result cenote_go_empty_cache(int32_t device, cenote_trim_result *out) {
    out->struct_size = sizeof *out;
    RETURN_CALL(cenote_empty_cache, device, out);
}

cenote_go_result cenote_go_poll(void) {
    NEED_LIBRARY();
    return done(CALL(cenote_poll), 0);
}

cenote_go_result cenote_go_shutdown(void) {
    NEED_LIBRARY();
    return done(CALL(cenote_shutdown), 0);
}

const char *cenote_go_version(void) { return ENTER() == CENOTE_OK ? CALL(cenote_version) : ""; }
