/*
 * cenote_dl.h: cenote without a link step.
 *
 * Include this header (it includes cenote.h), call cenote_dl_open once, and use the functions of
 * the table. Nothing is linked but the C library; the program starts where cenote is not installed
 * and gets a status that says so.
 *
 *     static cenote_dl_api cenote;
 *     if (cenote_dl_open(&cenote) != CENOTE_OK) { fprintf(stderr, "%s\n", cenote.message); ... }
 *     cenote.cenote_alloc(CENOTE_DEFAULT_POOL, bytes, stream, &ptr);
 *
 * The library is looked for in this order:
 *   1. a libcenote.so.0 that this process has already loaded, whoever loaded it: there is one copy
 *      a process, so that every language shares the same pools;
 *   2. the file named by the environment variable CENOTE_LIBRARY, if it is set: it must open;
 *   3. libcenote.so.0 by the usual search of the dynamic linker.
 *
 * C99 and later, C++17 and later; GCC or Clang (the table's types come from cenote.h by __typeof__
 * or decltype, so they cannot differ from it).
 */
#ifndef CENOTE_DL_H
#define CENOTE_DL_H

#include "cenote.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every function of the ABI. Written by bindings/generate.py from include/cenote.abi.json. */
/* generated: begin */
#define CENOTE_DL_FUNCTIONS(X)      \
    X(cenote_abi_version)           \
    X(cenote_version)               \
    X(cenote_configure)             \
    X(cenote_option_count)          \
    X(cenote_option_at)             \
    X(cenote_runtime_info)          \
    X(cenote_poll)                  \
    X(cenote_shutdown)              \
    X(cenote_status_name)           \
    X(cenote_last_error)            \
    X(cenote_backend_register)      \
    X(cenote_mapping_observe)       \
    X(cenote_device_count)          \
    X(cenote_device_info)           \
    X(cenote_device_limit)          \
    X(cenote_empty_cache)           \
    X(cenote_pool_create)           \
    X(cenote_pool_destroy)          \
    X(cenote_pool_default)          \
    X(cenote_pool_trim)             \
    X(cenote_pool_stats)            \
    X(cenote_pool_reset_peaks)      \
    X(cenote_alloc)                 \
    X(cenote_alloc_aligned)         \
    X(cenote_alloc_ex)              \
    X(cenote_free)                  \
    X(cenote_free_sized)            \
    X(cenote_block_info)            \
    X(cenote_block_segments)        \
    X(cenote_block_pin)             \
    X(cenote_block_unpin)           \
    X(cenote_block_record_stream)   \
    X(cenote_block_use_end)         \
    X(cenote_stream_register)       \
    X(cenote_stream_retire)         \
    X(cenote_capture_begin)         \
    X(cenote_capture_end)           \
    X(cenote_graph_release)         \
    X(cenote_torch_alloc)           \
    X(cenote_torch_free)            \
    X(cenote_torch_record_stream)   \
    X(cenote_torch_reset)           \
    X(cenote_torch_memory_fraction) \
    X(cenote_torch_base_alloc)
/* generated: end */

#ifdef __cplusplus
#define CENOTE_DL_POINTER(name) decltype(&::name) name;
#define CENOTE_DL_INLINE inline
#else
#define CENOTE_DL_POINTER(name) __typeof__(name) *name;
#define CENOTE_DL_INLINE static inline
#endif

/* The functions of a loaded library. Valid as long as the process: the library is never unloaded,
 * for its blocks outlive whoever opened it. */
typedef struct cenote_dl_api {
    CENOTE_DL_FUNCTIONS(CENOTE_DL_POINTER)
    /* The dynamic linker's handle; NULL while nothing is loaded. */
    void *library;
    /* One line that says why cenote_dl_open failed; empty after success. */
    char message[256];
} cenote_dl_api;

#undef CENOTE_DL_POINTER

/* Note a failure: nothing of the table may be called afterwards. */
CENOTE_DL_INLINE cenote_status cenote_dl_fail(cenote_dl_api *api, cenote_status status,
                                              const char *what, const char *detail) {
    memset(api, 0, sizeof *api);
    (void)snprintf(api->message, sizeof api->message, "%s%.180s", what, detail ? detail : "");
    return status;
}

/* Open the library by the order given above; NULL if there is none, with the reason in *detail. */
CENOTE_DL_INLINE void *cenote_dl_find(const char **detail) {
    const char *path = getenv("CENOTE_LIBRARY");
    void *library = dlopen("libcenote.so.0", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (library == NULL) {
        (void)dlerror();
        if (path == NULL || path[0] == '\0') {
            path = "libcenote.so.0";
        }
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    *detail = library == NULL ? dlerror() : NULL;
    return library;
}

/* Find a library, check its ABI generation and fill the table.
 * CENOTE_E_NULL without a table; CENOTE_E_NO_LIBRARY if none opens; CENOTE_E_ABI if it is of
 * another generation or lacks a function of this header. On failure every pointer of the table is
 * NULL and its message says why. May be called again; each table must be filled by one thread. */
CENOTE_DL_INLINE cenote_status cenote_dl_open(cenote_dl_api *api) {
    const char *detail = NULL;
    if (api == NULL) {
        return CENOTE_E_NULL;
    }
    memset(api, 0, sizeof *api);
    api->library = cenote_dl_find(&detail);
    if (api->library == NULL) {
        return cenote_dl_fail(api, CENOTE_E_NO_LIBRARY,
                              "no cenote library (install it, or set CENOTE_LIBRARY to its file): ",
                              detail);
    }
#define CENOTE_DL_LOAD(name)                                                                      \
    {                                                                                             \
        void *symbol = dlsym(api->library, #name);                                                \
        if (symbol == NULL) {                                                                     \
            return cenote_dl_fail(api, CENOTE_E_ABI, "the cenote library is too old, it lacks ",  \
                                  #name);                                                         \
        }                                                                                         \
        memcpy(&api->name, &symbol, sizeof symbol);                                               \
    }
    CENOTE_DL_LOAD(cenote_abi_version)
    if (api->cenote_abi_version() != CENOTE_ABI_VERSION) {
        return cenote_dl_fail(api, CENOTE_E_ABI,
                              "the cenote library is of another ABI generation than cenote.h", "");
    }
    CENOTE_DL_FUNCTIONS(CENOTE_DL_LOAD)
#undef CENOTE_DL_LOAD
    return CENOTE_OK;
}

#endif /* CENOTE_DL_H */
