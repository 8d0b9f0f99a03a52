/*
 * cenote.h: generated from src/ffi, do not edit; `make bless`.
 *
 * This header is the manual of the C ABI of cenote: one GPU memory manager for every language in a
 * process. Rust, C++, Python, Go and C call these functions and share the same pools.
 *
 * Start:
 *
 *     void *p;
 *     cenote_alloc(CENOTE_DEFAULT_POOL, bytes, stream, &p);
 *     ...                                   work queued on stream uses p
 *     cenote_free(p, stream);
 *
 * Units. Sizes and offsets are bytes in uint64_t. Times say their unit in their name. A 64-bit
 * figure that is not known is UINT64_MAX, never 0. Size 0 gives CENOTE_OK and NULL; freeing NULL is
 * CENOTE_OK.
 *
 * Ownership. A block belongs to the caller from the allocation to the free, whichever language,
 * library or thread does either. Structs belong to the caller and are copied, in and out. Texts
 * that are returned are static. The library keeps no pointer of the caller, except callbacks and
 * their user pointers, for which the function says how long.
 *
 * Order. Allocation and free are ordered on a stream. Memory freed on a stream may be reused at
 * once by work queued later on the same stream; it is reused on another stream only when the work
 * that was queued before the free is finished on the device. A block used on further streams needs
 * cenote_block_record_stream for each. NULL is the legacy default stream.
 *
 * Per-thread default stream. The library cannot see how its caller was compiled. Code that is built
 * with nvcc's --default-stream per-thread, or that defines CUDA_API_PER_THREAD_DEFAULT_STREAM,
 * means another stream by 0: it must pass (cenote_stream_t)2, which is CU_STREAM_PER_THREAD, where
 * it would pass 0. The C++ header does this by itself.
 *
 * Threads. Every function may be called from any thread unless it says otherwise. No lock is held
 * while a callback runs. The calling thread's current device and context are the same after a call
 * as before it. Calls from a signal handler, or from a callback, answer CENOTE_E_REENTRANT.
 *
 * Processes. After a fork the child gets CENOTE_E_FORKED from every call. One copy of the library
 * serves a process: a second copy that is asked for memory answers CENOTE_E_SECOND_COPY. Nothing
 * happens before the first call that needs a device: no thread, no context, no memory, no signal
 * handler.
 *
 * Errors. Every call that can fail returns a cenote_status: 0 is success, every other value names
 * one cause. On failure out-parameters are untouched and the state is as before. cenote_last_error
 * has the figures and a sentence of the last failure of the calling thread. The library prints
 * nothing, never aborts its host, and lets no panic cross this border (CENOTE_E_PANIC; this needs a
 * build with unwinding, which the shipped one is). Besides the statuses that a function names, any
 * of CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN, CENOTE_E_REENTRANT,
 * CENOTE_E_INTERNAL and CENOTE_E_PANIC may come back from any function. The start-up errors, from
 * the first call that needs a device, are CENOTE_E_NO_DRIVER, CENOTE_E_DRIVER_SYMBOL,
 * CENOTE_E_DRIVER_INIT, CENOTE_E_NO_DEVICE and CENOTE_E_SECOND_COPY.
 *
 * ABI rules. Every struct starts with struct_size, which the caller sets to sizeof of the struct. A
 * shorter struct of an older caller is served with defaults for what it lacks; a longer one is
 * accepted if the unknown tail is zero. Unknown flag bits and non-zero reserved fields are errors.
 * Names, numbers and layouts are only ever added within one CENOTE_ABI_VERSION; a library of
 * another generation has another SONAME (generation 1 is libcenote.so.0). Compare
 * cenote_abi_version() with CENOTE_ABI_VERSION before other calls if the library was opened at run
 * time. A status number that your header does not know may come from a newer library: treat it as a
 * failure and ask cenote_status_name.
 */

#ifndef CENOTE_H
#define CENOTE_H

#include <stddef.h>
#include <stdint.h>

/** Version of this header. */
#define CENOTE_VERSION_MAJOR 0
#define CENOTE_VERSION_MINOR 1
#define CENOTE_VERSION_PATCH 0
/** The three as one number that grows with every version. */
#define CENOTE_VERSION_NUMBER \
    (CENOTE_VERSION_MAJOR * 1000000 + CENOTE_VERSION_MINOR * 1000 + CENOTE_VERSION_PATCH)
#define CENOTE_VERSION_STRING "0.1.0"

/* ---- Statuses: the values of cenote_status ---- */

/** Success. */
#define CENOTE_OK 0
/** A required pointer argument is NULL. */
#define CENOTE_E_NULL 1001
/** An argument is outside its range. */
#define CENOTE_E_ARGUMENT 1002
/** The alignment is not a power of two or is too large. */
#define CENOTE_E_ALIGNMENT 1003
/** The size overflows or exceeds the address space. */
#define CENOTE_E_SIZE 1004
/** Unknown or contradictory flag bits. */
#define CENOTE_E_FLAGS 1005
/** struct_size is too small, or unknown tail fields are not zero. */
#define CENOTE_E_STRUCT_SIZE 1006
/** The pool handle is stale or was never issued. */
#define CENOTE_E_HANDLE 1007
/** The registered stream is retired or was never registered. */
#define CENOTE_E_STREAM 1008
/** There is no such device. */
#define CENOTE_E_DEVICE 1009
/** The address was not allocated by cenote. */
#define CENOTE_E_FOREIGN_POINTER 1010
/** The address points into a block, not to its start. */
#define CENOTE_E_INTERIOR_POINTER 1011
/** The block is already free. */
#define CENOTE_E_DOUBLE_FREE 1012
/** The size given differs from the size allocated. */
#define CENOTE_E_SIZE_MISMATCH 1013
/** There is no option of this name. */
#define CENOTE_E_OPTION 1014
/** The value of the option cannot be read, or is ambiguous. */
#define CENOTE_E_VALUE 1015
/** The caller was built for another ABI generation. */
#define CENOTE_E_ABI 1016
/** There is no captured graph of this id. */
#define CENOTE_E_GRAPH 1017
/** The device has no memory left for the request. */
#define CENOTE_E_OUT_OF_MEMORY 2001
/** A limit set on the pool, the device or the process refuses the request. */
#define CENOTE_E_LIMIT 2002
/** The virtual address space is exhausted. */
#define CENOTE_E_ADDRESS_SPACE 2003
/** Memory is pending and NOWAIT forbids waiting for it. */
#define CENOTE_E_WOULD_BLOCK 2004
/** The pool would have to grow and NO_GROW forbids it. */
#define CENOTE_E_WOULD_GROW 2005
/** The host has no memory left for bookkeeping. */
#define CENOTE_E_HOST_MEMORY 2006
/** The CUDA driver library is not installed. */
#define CENOTE_E_NO_DRIVER 3001
/** The CUDA driver lacks a function that is needed. */
#define CENOTE_E_DRIVER_SYMBOL 3002
/** The CUDA driver failed to initialise. */
#define CENOTE_E_DRIVER_INIT 3003
/** A driver call failed. */
#define CENOTE_E_DRIVER 3004
/** The device context is lost (first error kept): restart the process. */
#define CENOTE_E_CONTEXT_LOST 3005
/** The device or the backend cannot do this. */
#define CENOTE_E_NOT_SUPPORTED 3006
/** The driver reports no device. */
#define CENOTE_E_NO_DEVICE 3007
/** The driver is shutting down. */
#define CENOTE_E_DRIVER_EXIT 3008
/** The cenote library is not installed or cannot be opened. */
#define CENOTE_E_NO_LIBRARY 3009
/** Cenote was shut down in this process. */
#define CENOTE_E_SHUTDOWN 4001
/** Cenote was used before a fork; the child cannot use it. */
#define CENOTE_E_FORKED 4002
/** Another copy of cenote already serves this process. */
#define CENOTE_E_SECOND_COPY 4003
/** Called from inside cenote, from a callback or a signal handler. */
#define CENOTE_E_REENTRANT 4004
/** Too late: options are fixed once the first pool exists. */
#define CENOTE_E_CONFIGURED 4005
/** The block is pinned. */
#define CENOTE_E_PINNED 4006
/** Not possible in this state of a stream capture. */
#define CENOTE_E_CAPTURE 4007
/** The pool still has live blocks. */
#define CENOTE_E_POOL_BUSY 4008
/** No use of the block was recorded on this stream. */
#define CENOTE_E_NOT_RECORDED 4009
/** Internal error: cenote's own bookkeeping is inconsistent. */
#define CENOTE_E_INTERNAL 9001
/** Internal error: a panic was caught at the ABI border. */
#define CENOTE_E_PANIC 9002


/* ---- The runtime noun: version, options, errors, shutdown ---- */

/** The default pool of the current device. */
#define CENOTE_DEFAULT_POOL 0

/** ABI generation of this header; cenote_abi_version() must give the same. */
#define CENOTE_ABI_VERSION 1

/** Kind: memory of the device (the host's memory on the host backend). */
#define CENOTE_KIND_DEVICE 0

/** Kind: plain host memory, the same interface where there is no GPU. */
#define CENOTE_KIND_HOST 1

/**
 * Pool flag: pages of live blocks never change their physical memory, and idle ones are never
 * taken over: for consumers that register whole segments (NCCL, RDMA).
 */
#define CENOTE_POOL_STABLE 1

/** Alloc flag: never wait for the device; CENOTE_E_WOULD_BLOCK if only waiting could help. */
#define CENOTE_ALLOC_NOWAIT 1

/**
 * Alloc flag: never take new memory from the driver; CENOTE_E_WOULD_GROW if only that could help.
 */
#define CENOTE_ALLOC_NO_GROW 2

/**
 * Alloc flag: do nothing about memory that other streams freed and may still use: no event is
 * recorded for it and nothing waits for it. What is known to be finished serves every stream.
 */
#define CENOTE_ALLOC_NO_CROSS_STREAM 4

/**
 * Stream promise: the stream lives until cenote_stream_retire; the library may use its handle in
 * later calls.
 */
#define CENOTE_STREAM_PERSISTENT 1

/**
 * Stream promise: captures of this stream are told by cenote_capture_begin and cenote_capture_end,
 * so that no call has to ask the driver.
 */
#define CENOTE_STREAM_CAPTURE_TOLD 2

/** Slack chosen by the library. */
#define CENOTE_SLACK_AUTO 4294967295

/** Decay off: idle pages stay until a trim. */
#define CENOTE_DECAY_OFF 4294967295

/** Backend numbers in cenote_runtime_info.backend. */
#define CENOTE_BACKEND_HOST 0

/** The CUDA driver. */
#define CENOTE_BACKEND_CUDA 1

/** A table given by the caller. */
#define CENOTE_BACKEND_VTABLE 2

/**
 * Result of every fallible call: 0 is success. Families: 1000 argument, 2000 memory, 3000 device
 * and driver, 4000 state, 9000 internal. Numbers are never changed and never reused.
 */
typedef int32_t cenote_status;

/** One option with its effective value and where that value came from. */
typedef struct cenote_option_t {
    /** sizeof(cenote_option_t), set by the caller. */
    uint32_t struct_size;
    /** 0 default, 1 environment, 2 cenote_configure. */
    uint32_t source;
    /**
     * Option name, for example "limit"; the environment variable is CENOTE_ and the name in
     * capitals.
     */
    char name[32];
    /** Effective value as text. */
    char value[256];
    /** One line that says what the option does, its unit and range. */
    char help[256];
} cenote_option_t;

/** The library and the backend that serves it. */
typedef struct cenote_runtime_info_t {
    /** sizeof(cenote_runtime_info_t), set by the caller. */
    uint32_t struct_size;
    /** CENOTE_ABI_VERSION of the library. */
    uint32_t abi_version;
    /** CENOTE_BACKEND_*. */
    uint32_t backend;
    /** Driver version as it counts (13000 is CUDA 13.0), 0 on other backends. */
    uint32_t driver_version;
    /** Number of devices. */
    uint32_t device_count;
    /** Zero. */
    uint32_t reserved;
} cenote_runtime_info_t;

/** Details of the last failure on the calling thread. */
typedef struct cenote_error {
    /** sizeof(cenote_error), set by the caller. */
    uint32_t struct_size;
    /** The status that was returned. */
    cenote_status status;
    /** The driver's own code (CUresult or errno), 0 if none. */
    int32_t backend_code;
    /** Zero. */
    uint32_t reserved;
    /** Bytes wanted, 0 if that says nothing here. */
    uint64_t wanted_bytes;
    /** Bytes available, or the limit that refused; 0 if that says nothing here. */
    uint64_t available_bytes;
    /** One line: what, where and what to do. NUL-terminated. */
    char message[256];
} cenote_error;

/**
 * A backend given by the caller: an accelerator that cenote does not know. Every function returns
 * 0 or an error code of its own, may be called from any thread, and must not call cenote. `user`
 * is passed to each. Functions marked optional may be NULL.
 */
typedef struct cenote_backend_vtable {
    /** sizeof(cenote_backend_vtable), set by the caller. */
    uint32_t struct_size;
    /** Number of devices, at least 1. */
    uint32_t device_count;
    /** Smallest unit of physical memory in bytes: a power of two, at least 4096. */
    uint64_t page_bytes;
    /** Bytes of memory of each device. */
    uint64_t total_bytes;
    /** 1 if the CPU can use the addresses. */
    uint32_t host_visible;
    /** 1 if work is asynchronous, so that frees need the event functions below. */
    uint32_t asynchronous;
    /** Passed to every function. */
    void *user;
    /** Reserve addresses. */
    int32_t (*reserve)(void *user,
                       uint32_t device,
                       uint64_t size_bytes,
                       uint64_t align_bytes,
                       uint64_t *addr);
    /** Give a reservation back. */
    int32_t (*unreserve)(void *user, uint32_t device, uint64_t addr, uint64_t size_bytes);
    /** Create physical memory; any non-zero result counts as out of memory. */
    int32_t (*create)(void *user, uint32_t device, uint64_t size_bytes, uint64_t *handle);
    /** Release physical memory. */
    int32_t (*release)(void *user, uint32_t device, uint64_t handle, uint64_t size_bytes);
    /** Map a whole handle and make it accessible. */
    int32_t (*map)(void *user,
                   uint32_t device,
                   uint64_t addr,
                   uint64_t size_bytes,
                   uint64_t handle);
    /** Unmap a whole mapping. */
    int32_t (*unmap)(void *user, uint32_t device, uint64_t addr, uint64_t size_bytes);
    /** Optional: free and total bytes. */
    int32_t (*mem_info)(void *user, uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes);
    /** Create an event; needed if asynchronous. */
    int32_t (*event_create)(void *user, uint32_t device, uint64_t *event);
    /** Destroy an event; needed if asynchronous. */
    int32_t (*event_destroy)(void *user, uint32_t device, uint64_t event);
    /** Record an event on a stream; needed if asynchronous. */
    int32_t (*event_record)(void *user, uint32_t device, uint64_t event, uint64_t stream);
    /** Set *done to 1 if the event is complete, else 0; needed if asynchronous. */
    int32_t (*event_query)(void *user, uint32_t device, uint64_t event, uint32_t *done);
    /** Wait for everything on the device; needed if asynchronous. */
    int32_t (*synchronize)(void *user, uint32_t device);
} cenote_backend_vtable;

/** One change of a mapping, as cenote_mapping_observe reports it. */
typedef struct cenote_mapping_event {
    /** sizeof(cenote_mapping_event) of the library. */
    uint32_t struct_size;
    /** 1 mapped, 0 about to be unmapped. */
    uint32_t mapped;
    /** Device index. */
    int32_t device;
    /** Zero. */
    uint32_t reserved;
    /** Address of the mapping. */
    uint64_t base;
    /** Bytes of the mapping. */
    uint64_t size_bytes;
    /** The driver's handle, 0 on backends without one. */
    uint64_t handle;
} cenote_mapping_event;

/**
 * Told of each mapping change, on the thread that makes it, with no lock held. It may not call
 * cenote (CENOTE_E_REENTRANT) and must not unwind.
 */
typedef void (*cenote_mapping_fn)(const struct cenote_mapping_event *event, void *user);

/** A device. */
typedef struct cenote_device_info_t {
    /** sizeof(cenote_device_info_t), set by the caller. */
    uint32_t struct_size;
    /** Compute capability, major * 10 + minor; 0 where there is none. */
    uint32_t compute_capability;
    /** Bytes of memory in all. */
    uint64_t total_bytes;
    /** Bytes free as the driver says; UINT64_MAX where unknown (no context on the device yet). */
    uint64_t free_bytes;
    /** Bytes of the smallest unit that goes back to the driver. */
    uint64_t page_bytes;
    /** Limit in force for this process on the device, UINT64_MAX for none. */
    uint64_t limit_bytes;
    /** 1 if the CPU can use the addresses that allocation returns, else 0. */
    uint32_t host_visible;
    /** 1 if handles can be exported as file descriptors, else 0. */
    uint32_t export_fd;
    /** 1 if memory is made reachable by RDMA, else 0. */
    uint32_t rdma;
    /** 1 if pages are mapped by virtual memory management, else 0 (whole driver allocations). */
    uint32_t virtual_memory;
    /** Name, NUL-terminated. */
    char name[256];
    /** "GPU-…" as NVIDIA's tools print it, or empty. */
    char uuid[64];
} cenote_device_info_t;

/** What a trim did. */
typedef struct cenote_trim_result {
    /** sizeof(cenote_trim_result), set by the caller. */
    uint32_t struct_size;
    /** Zero. */
    uint32_t reserved;
    /** Bytes given back to the driver. */
    uint64_t returned_bytes;
    /** Bytes that stay because frees of other streams are not finished on the device. */
    uint64_t pending_bytes;
    /** Bytes that stay because live or pinned blocks use their handles. */
    uint64_t kept_bytes;
} cenote_trim_result;

/** What a pool is made of. Zeroed fields take the defaults. */
typedef struct cenote_pool_desc {
    /** sizeof(cenote_pool_desc), set by the caller. */
    uint32_t struct_size;
    /** CENOTE_KIND_*. */
    uint32_t kind;
    /** Device index; -1 for the current device. */
    int32_t device;
    /** CENOTE_POOL_*. */
    uint32_t flags;
    /** Most bytes the pool may hold, 0 for no limit of its own. */
    uint64_t limit_bytes;
    /** Bytes to take from the driver at creation, 0 for none. */
    uint64_t initial_bytes;
    /**
     * Parts per million by which held bytes may exceed peak live bytes before idle memory is taken
     * over instead of new memory created; 0 takes the option "slack", CENOTE_SLACK_AUTO chooses.
     */
    uint32_t slack_ppm;
    /**
     * Milliseconds after which finished idle pages go back to the driver; 0 takes the option
     * "decay", CENOTE_DECAY_OFF keeps them.
     */
    uint32_t decay_ms;
    /** Name for reports, NUL-terminated; empty for none. */
    char name[32];
} cenote_pool_desc;

/**
 * A pool: a 64-bit id with a generation, so that a stale or foreign handle is a status and not a
 * crash. 0 is CENOTE_DEFAULT_POOL.
 */
typedef uint64_t cenote_pool_t;

/**
 * Statistics of a pool. Current values are exact at rest; UINT64_MAX means unknown, never 0.
 */
typedef struct cenote_pool_stats_t {
    /** sizeof(cenote_pool_stats_t), set by the caller. */
    uint32_t struct_size;
    /**
     * 1 once the device context is lost: the figures are the last known, and say nothing of the
     * device any more. Else 0.
     */
    uint32_t untrusted;
    /** Bytes requested and not yet freed. */
    uint64_t live_bytes;
    /** The same, rounded up to what the blocks occupy. */
    uint64_t used_bytes;
    /** Bytes of freed blocks whose last use is not yet known to be finished on the device. */
    uint64_t pending_bytes;
    /** Bytes held for later use: held less used and pending. */
    uint64_t cached_bytes;
    /** Every byte taken from the driver and not released, mapped or not. */
    uint64_t held_bytes;
    /** Bytes of address space reserved. */
    uint64_t reserved_bytes;
    /** Peak of live_bytes since creation or the last reset. */
    uint64_t peak_live_bytes;
    /** Peak of held_bytes since creation or the last reset. */
    uint64_t peak_held_bytes;
    /** Largest single request that mapped idle memory could serve now, on an idle device. */
    uint64_t largest_free_bytes;
    /** Live blocks. */
    uint64_t live_blocks;
    /** Allocations since creation. */
    uint64_t alloc_count;
    /** Frees since creation. */
    uint64_t free_count;
    /** Driver calls: physical memory created. */
    uint64_t driver_create_count;
    /** Driver calls: handles mapped. */
    uint64_t driver_map_count;
    /** Driver calls: access set. */
    uint64_t driver_access_count;
    /** Driver calls: ranges unmapped. */
    uint64_t driver_unmap_count;
    /** Driver calls: handles released. */
    uint64_t driver_release_count;
    /** Time in those five kinds of call, nanoseconds. */
    uint64_t driver_time_ns;
    /** Events recorded. */
    uint64_t event_record_count;
    /** Event queries. */
    uint64_t event_query_count;
    /** Allocations that needed a step of the out-of-memory ladder and then succeeded. */
    uint64_t retry_count;
    /** Allocations refused for lack of memory or by a limit. */
    uint64_t oom_count;
    /**
     * Blocks that were found live when a cache handed them out, and dropped (a racing double
     * free).
     */
    uint64_t dropped_count;
    /** Idle handles moved to another address instead of creating memory. */
    uint64_t takeover_count;
} cenote_pool_stats_t;

/**
 * A stream in one of two forms. Raw: a CUstream uncast, the special values 0 (legacy default
 * stream), 1 (CU_STREAM_LEGACY) and 2 (CU_STREAM_PER_THREAD) included; code compiled for the
 * per-thread default stream must pass 2 where it means its default stream. Registered: a value
 * from cenote_stream_register, which is never a valid pointer.
 */
typedef void *cenote_stream_t;

/** Settings of one allocation. */
typedef struct cenote_alloc_desc {
    /** sizeof(cenote_alloc_desc), set by the caller. */
    uint32_t struct_size;
    /** CENOTE_ALLOC_*. */
    uint32_t flags;
    /** Bytes wanted; 0 gives NULL. */
    uint64_t size_bytes;
    /** A power of two up to 2 MiB; 0 for the default of 512. */
    uint64_t align_bytes;
} cenote_alloc_desc;

/** A block, found by its address. */
typedef struct cenote_block_info_t {
    /** sizeof(cenote_block_info_t), set by the caller. */
    uint32_t struct_size;
    /** CENOTE_KIND_*. */
    uint32_t kind;
    /** Device index. */
    int32_t device;
    /** Number of pins. */
    uint32_t pin_count;
    /** The pool that owns the block. */
    cenote_pool_t pool;
    /** Start of the block. */
    uint64_t base;
    /** Offset of the address asked about from the start. */
    uint64_t offset_bytes;
    /** Bytes asked for when it was allocated. */
    uint64_t requested_bytes;
    /** Bytes that may be used: the request rounded up. */
    uint64_t usable_bytes;
    /** The same memory for the CPU; NULL where the CPU cannot use it. */
    void *host_ptr;
    /** Start of the reservation that contains the block. */
    uint64_t reservation_base;
    /** Bytes of that reservation. */
    uint64_t reservation_bytes;
    /** Number of physical handles under the block: see cenote_block_segments. */
    uint32_t segment_count;
    /** 1 if the block belongs to a captured graph's private memory, else 0. */
    uint32_t captured;
} cenote_block_info_t;

/** One physical handle under a block. */
typedef struct cenote_segment_t {
    /** Address at which the handle is mapped. */
    uint64_t base;
    /** Bytes of the handle. */
    uint64_t size_bytes;
    /** The driver's handle (CUmemGenericAllocationHandle), 0 on backends without one. */
    uint64_t handle;
} cenote_segment_t;

/** A captured graph's private memory, as cenote_capture_end names it. 0 is none. */
typedef uint64_t cenote_graph_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * ABI generation of the library that is loaded; compare it with CENOTE_ABI_VERSION.
 * Threads: any. Blocking: never. Since: 0.1.
 */
uint32_t cenote_abi_version(void);

/**
 * Version text, for example "0.1.0".
 * Ownership: static text. Threads: any. Blocking: never. Since: 0.1.
 */
const char *cenote_version(void);

/**
 * Set an option by name, for example ("limit", "8GiB"); the options are those of
 * cenote_option_at. Each can also be given by an environment variable, CENOTE_ and its name in
 * capitals, which this call overrides.
 * Units: sizes as "8GiB", "500MB" (decimal), "50%" or an integer of bytes.
 * Ownership: both texts are copied. Threads: any. Blocking: never; calls no driver function.
 * Errors: CENOTE_E_NULL; CENOTE_E_OPTION for an unknown name; CENOTE_E_VALUE for a text that
 * cannot be read; CENOTE_E_CONFIGURED once the first pool exists.
 * Since: 0.1.
 */
cenote_status cenote_configure(const char *name, const char *value);

/**
 * Number of options.
 * Threads: any. Blocking: never. Since: 0.1.
 */
uint32_t cenote_option_count(void);

/**
 * The option at an index: name, effective value, its source and what it does.
 * Ownership: copied into `out`. Threads: any. Blocking: never.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE; CENOTE_E_ARGUMENT for an index past the end.
 * Since: 0.1.
 */
cenote_status cenote_option_at(uint32_t index, struct cenote_option_t *out);

/**
 * What serves this process: starts the backend if none is running yet, but creates no device
 * context and takes no memory.
 * Ownership: copied into `out`. Threads: any. Blocking: the first call opens the driver library.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_NO_DRIVER, CENOTE_E_DRIVER_SYMBOL,
 * CENOTE_E_DRIVER_INIT, CENOTE_E_SECOND_COPY.
 * Since: 0.1.
 */
cenote_status cenote_runtime_info(struct cenote_runtime_info_t *out);

/**
 * Do what is due without an allocation: collect finished frees, give decayed pages back, release
 * the memory of graphs that are gone. Cheap if nothing is due.
 * Threads: any. Blocking: may call the driver to unmap and release; never waits for the device.
 * Errors: CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN.
 * Since: 0.1.
 */
cenote_status cenote_poll(void);

/**
 * Give everything back and refuse further work with CENOTE_E_SHUTDOWN. Memory of live blocks is
 * given back too, after waiting for the device. Calling it is optional: a process may simply exit.
 * Threads: any; no other call may run at the same time. Blocking: waits for the device.
 * Errors: CENOTE_E_FORKED; driver errors are ignored, for the driver may be gone already.
 * Since: 0.1.
 */
cenote_status cenote_shutdown(void);

/**
 * C name of a status, for example "CENOTE_E_LIMIT"; "CENOTE_E_UNKNOWN" for a number this library
 * does not know.
 * Ownership: static text. Threads: any. Blocking: never. Since: 0.1.
 */
const char *cenote_status_name(cenote_status status);

/**
 * Details of the last failed call on this thread; unchanged by calls that succeed.
 * Ownership: copied into `out`. Threads: the record is the calling thread's. Blocking: never.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE (neither replaces the record).
 * Since: 0.1.
 */
cenote_status cenote_last_error(struct cenote_error *out);

/**
 * Serve the process by a backend given as a table of functions, instead of CUDA or the host.
 * Ownership: the table is copied; the functions and `user` must live as long as the process.
 * Threads: before the first pool. Blocking: never.
 * Errors: CENOTE_E_NULL for the table or a required function; CENOTE_E_STRUCT_SIZE;
 * CENOTE_E_ARGUMENT for a device count or page size outside its range; CENOTE_E_CONFIGURED.
 * Since: 0.1.
 */
cenote_status cenote_backend_register(const struct cenote_backend_vtable *table);

/**
 * Be told of every mapping change (NULL: no longer). One observer a process.
 * Ownership: `user` is the caller's and must live until the observer is replaced and running calls
 * have returned. Threads: any. Blocking: never.
 * Errors: none beyond the general ones. Since: 0.1.
 */
cenote_status cenote_mapping_observe(cenote_mapping_fn observer,
                                     void *user);

/* ---- The device noun: count and facts ---- */

/**
 * Number of devices the backend sees.
 * Ownership: written to `out`. Threads: any. Blocking: the first call opens the driver library.
 * Errors: CENOTE_E_NULL and those of cenote_runtime_info. Since: 0.1.
 */
cenote_status cenote_device_count(uint32_t *out);

/**
 * Facts of a device. Creates no context.
 * Ownership: copied into `out`. Threads: any. Blocking: asks the driver.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_DEVICE. Since: 0.1.
 */
cenote_status cenote_device_info(int32_t device, struct cenote_device_info_t *out);

/**
 * Limit what this process may hold on a device, over all its pools. Lowering it below what is held
 * refuses growth; it takes nothing away.
 * Units: bytes; UINT64_MAX for no limit. Threads: any. Blocking: never.
 * Errors: CENOTE_E_DEVICE. Since: 0.1.
 */
cenote_status cenote_device_limit(int32_t device,
                                  uint64_t limit_bytes);

/**
 * Give back every idle page of every pool of a device (-1: of all devices). A device without a
 * pool is not an error.
 * Ownership: `out` may be NULL; else written. Order: frees whose work is not finished on the
 * device stay and are counted as pending. Threads: any.
 * Blocking: calls the driver to unmap and release; never waits for the device.
 * Errors: CENOTE_E_DEVICE, CENOTE_E_STRUCT_SIZE, CENOTE_E_CONTEXT_LOST. Since: 0.1.
 */
cenote_status cenote_empty_cache(int32_t device, struct cenote_trim_result *out);

/* ---- The pool noun ---- */

/**
 * Create a pool.
 * Ownership: the caller destroys it with cenote_pool_destroy. Threads: any.
 * Blocking: may create the device's primary context; takes memory only if initial_bytes is set.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_ARGUMENT for an unknown kind,
 * CENOTE_E_FLAGS, CENOTE_E_DEVICE, CENOTE_E_ADDRESS_SPACE, CENOTE_E_OUT_OF_MEMORY and
 * CENOTE_E_LIMIT for initial_bytes, the backend's start-up errors. Since: 0.1.
 */
cenote_status cenote_pool_create(const struct cenote_pool_desc *desc, cenote_pool_t *out);

/**
 * Destroy a pool and give its memory back.
 * Order: waits for unfinished frees. Threads: any; no other call may use the pool at the same
 * time.
 * Blocking: waits for the device where frees are pending.
 * Errors: CENOTE_E_HANDLE; CENOTE_E_POOL_BUSY with live blocks (nothing is changed);
 * CENOTE_E_ARGUMENT for a default pool; CENOTE_E_CONTEXT_LOST. Since: 0.1.
 */
cenote_status cenote_pool_destroy(cenote_pool_t pool);

/**
 * The default pool of a device (-1: the current one), created on first use.
 * Ownership: the library's; never destroyed. Threads: any. Blocking: as cenote_pool_create.
 * Errors: CENOTE_E_NULL, CENOTE_E_DEVICE and those of cenote_pool_create. Since: 0.1.
 */
cenote_status cenote_pool_default(int32_t device, cenote_pool_t *out);

/**
 * Give idle memory back until the pool holds at most `keep_bytes`, or nothing idle is left.
 * Units: bytes. Ownership: `out` may be NULL. Order: unfinished frees stay and are counted as
 * pending.
 * Threads: any; other threads allocate meanwhile. Blocking: calls the driver; never waits for the
 * device.
 * Errors: CENOTE_E_HANDLE, CENOTE_E_STRUCT_SIZE, CENOTE_E_CONTEXT_LOST. Since: 0.1.
 */
cenote_status cenote_pool_trim(cenote_pool_t pool,
                               uint64_t keep_bytes,
                               struct cenote_trim_result *out);

/**
 * Statistics of a pool.
 * Ownership: copied into `out`. Threads: any. Blocking: a short lock; collects finished frees
 * first.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_HANDLE. Since: 0.1.
 */
cenote_status cenote_pool_stats(cenote_pool_t pool, struct cenote_pool_stats_t *out);

/**
 * Set the peaks of a pool to the current values.
 * Threads: any. Blocking: a short lock. Errors: CENOTE_E_HANDLE. Since: 0.1.
 */
cenote_status cenote_pool_reset_peaks(cenote_pool_t pool);

/* ---- The block noun: allocation, free by address, facts, pins and recorded uses ---- */

/**
 * Allocate a block in stream order, aligned to 512 bytes.
 * Units: bytes; 0 gives CENOTE_OK and NULL.
 * Ownership: the caller frees it with cenote_free, from any thread and in any language.
 * Order: usable at once by work queued on `stream`; other streams must wait for `stream` first.
 * Memory freed earlier on the same stream may be returned while its last use still runs there.
 * Threads: any. Blocking: a miss may call the driver; waits for the device only before it would
 * fail.
 * Errors: `out` is untouched on failure. CENOTE_E_NULL, CENOTE_E_HANDLE, CENOTE_E_SIZE,
 * CENOTE_E_STREAM, CENOTE_E_OUT_OF_MEMORY, CENOTE_E_LIMIT, CENOTE_E_ADDRESS_SPACE,
 * CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN, CENOTE_E_SECOND_COPY,
 * CENOTE_E_REENTRANT, the start-up errors.
 * Since: 0.1.
 */
cenote_status cenote_alloc(cenote_pool_t pool,
                           uint64_t size_bytes,
                           cenote_stream_t stream,
                           void **out);

/**
 * Allocate with an alignment: a power of two up to 2 MiB (0 for the default).
 * Otherwise as cenote_alloc. Ownership, Order, Threads and Blocking are those of cenote_alloc.
 * Errors: also CENOTE_E_ALIGNMENT. Since: 0.1.
 */
cenote_status cenote_alloc_aligned(cenote_pool_t pool,
                                   uint64_t size_bytes,
                                   uint64_t align_bytes,
                                   cenote_stream_t stream,
                                   void **out);

/**
 * Allocate with flags (CENOTE_ALLOC_*).
 * Otherwise as cenote_alloc. Ownership, Order and Threads are those of cenote_alloc.
 * Blocking: never waits for the device under CENOTE_ALLOC_NOWAIT.
 * Errors: also CENOTE_E_STRUCT_SIZE, CENOTE_E_FLAGS, CENOTE_E_ALIGNMENT, CENOTE_E_WOULD_BLOCK,
 * CENOTE_E_WOULD_GROW. Since: 0.1.
 */
cenote_status cenote_alloc_ex(cenote_pool_t pool,
                              const struct cenote_alloc_desc *desc,
                              cenote_stream_t stream,
                              void **out);

/**
 * Free a block by its address; its pool and device are found.
 * Ownership: the address is the library's again. NULL is CENOTE_OK.
 * Order: the memory may serve later allocations on `stream` at once, and others when all work
 * queued on `stream` so far, and every recorded use, is finished. A NULL stream is the legacy
 * default stream.
 * Threads: any, whatever device is current. Blocking: never waits; may record one event for a
 * batch.
 * Errors: CENOTE_E_FOREIGN_POINTER, CENOTE_E_INTERIOR_POINTER, CENOTE_E_DOUBLE_FREE,
 * CENOTE_E_STREAM, CENOTE_E_PINNED, CENOTE_E_CONTEXT_LOST, CENOTE_E_FORKED, CENOTE_E_SHUTDOWN; the
 * state stays intact.
 * Since: 0.1.
 */
cenote_status cenote_free(void *ptr,
                          cenote_stream_t stream);

/**
 * Free a block and check the size it was allocated with.
 * Units: bytes, exactly those asked for. Ownership, Order, Threads and Blocking are those of
 * cenote_free.
 * Errors: also CENOTE_E_SIZE_MISMATCH (the block stays live). Since: 0.1.
 */
cenote_status cenote_free_sized(void *ptr, uint64_t size_bytes, cenote_stream_t stream);

/**
 * Facts of the live block that contains an address (its start or any byte inside).
 * Ownership: copied into `out`. Threads: any. Blocking: a short lock.
 * Errors: CENOTE_E_NULL, CENOTE_E_STRUCT_SIZE, CENOTE_E_FOREIGN_POINTER, CENOTE_E_DOUBLE_FREE for
 * an address in a free block. Since: 0.1.
 */
cenote_status cenote_block_info(const void *ptr,
                                struct cenote_block_info_t *out);

/**
 * The physical handles under a block, in address order. They stay the block's until it is freed.
 * Ownership: up to *count entries are written to `out`; *count becomes the number there are.
 * Threads: any. Blocking: a short lock.
 * Errors: as cenote_block_info; CENOTE_E_ARGUMENT if *count was too small (it is set all the
 * same).
 * Since: 0.1.
 */
cenote_status cenote_block_segments(const void *ptr,
                                    struct cenote_segment_t *out,
                                    uint32_t *count);

/**
 * Pin a block: it cannot be freed, and its pages keep their physical memory, until it is unpinned
 * as often as it was pinned.
 * Ownership: unchanged. Threads: any. Blocking: a short lock.
 * Errors: CENOTE_E_FOREIGN_POINTER, CENOTE_E_INTERIOR_POINTER, CENOTE_E_DOUBLE_FREE. Since: 0.1.
 */
cenote_status cenote_block_pin(void *ptr);

/**
 * Undo one cenote_block_pin.
 * Ownership: unchanged. Threads: any. Blocking: a short lock.
 * Errors: as cenote_block_pin; CENOTE_E_ARGUMENT if the block is not pinned. Since: 0.1.
 */
cenote_status cenote_block_unpin(void *ptr);

/**
 * Say that a block is used on another stream too: after it is freed, it is reused only when the
 * work queued on that stream up to the free (or up to cenote_block_use_end) is finished.
 * Ownership: unchanged. Order: see above. Threads: any. Blocking: never waits.
 * Errors: as cenote_block_pin; CENOTE_E_STREAM. Since: 0.1.
 */
cenote_status cenote_block_record_stream(void *ptr, cenote_stream_t stream);

/**
 * Say that a recorded use has ended: work queued on the stream after this call does not touch the
 * block.
 * Ownership: unchanged. Order: the use ends at this point of `stream`. Threads: any.
 * Blocking: records one event; never waits.
 * Errors: as cenote_block_pin; CENOTE_E_NOT_RECORDED; CENOTE_E_CAPTURE while the stream is
 * captured.
 * Since: 0.1.
 */
cenote_status cenote_block_use_end(void *ptr,
                                   cenote_stream_t stream);

/* ---- The stream noun: registration, retirement, told captures ---- */

/**
 * Register a raw stream and promise things about it (CENOTE_STREAM_*), so that later calls ask the
 * driver nothing. Use the value returned in place of the raw handle.
 * Ownership: retire it with cenote_stream_retire before the stream is destroyed.
 * Threads: any. Blocking: asks the driver once.
 * Errors: CENOTE_E_NULL, CENOTE_E_FLAGS, CENOTE_E_DEVICE, CENOTE_E_STREAM for a value that is
 * itself registered, CENOTE_E_CONTEXT_LOST. Since: 0.1.
 */
cenote_status cenote_stream_register(int32_t device,
                                     cenote_stream_t raw,
                                     uint32_t promises,
                                     cenote_stream_t *out);

/**
 * End a registration. Frees still open on the stream get their event now; the value is never valid
 * again.
 * Ownership: the raw stream stays the caller's and may be destroyed after this call.
 * Threads: any; no other call may use the value at the same time. Blocking: may record an event.
 * Errors: CENOTE_E_STREAM. Since: 0.1.
 */
cenote_status cenote_stream_retire(cenote_stream_t stream);

/**
 * Tell that a capture of a registered stream begins: allocations on it come from memory private to
 * the graph until cenote_capture_end.
 * Ownership: none. Threads: any. Blocking: never.
 * Errors: CENOTE_E_STREAM for a stream that did not promise CAPTURE_TOLD; CENOTE_E_CAPTURE if one
 * is already running. Since: 0.1.
 */
cenote_status cenote_capture_begin(cenote_stream_t stream);

/**
 * Tell that the capture has ended, or was aborted.
 * Ownership: the graph's private memory stays until cenote_graph_release of the id written to
 * `out`.
 * Threads: any. Blocking: never. Errors: CENOTE_E_NULL, CENOTE_E_STREAM, CENOTE_E_CAPTURE if none
 * is running. Since: 0.1.
 */
cenote_status cenote_capture_end(cenote_stream_t stream,
                                 cenote_graph_t *out);

/**
 * Release the private memory of a told capture, when its graph and every executable made from it
 * are destroyed. Blocks in it that are still live keep their memory until they are freed.
 * Ownership: the id is never valid again. Order: unfinished launches are waited for by event, not
 * by the host. Threads: any. Blocking: never waits.
 * Errors: CENOTE_E_GRAPH; CENOTE_E_CAPTURE while the capture still runs. Since: 0.1.
 */
cenote_status cenote_graph_release(cenote_graph_t graph);

/* ---- Entry points with the signatures that PyTorch's pluggable allocator calls ---- */

/**
 * PyTorch's allocation hook: `size_bytes` on `device` for `stream`.
 * Ownership: freed with cenote_torch_free. Order and Blocking: as cenote_alloc. Threads: any.
 * Errors: NULL; cenote_last_error has the cause. Size 0 gives NULL. Since: 0.1.
 */
void *cenote_torch_alloc(ptrdiff_t size_bytes, int32_t device, cenote_stream_t stream);

/**
 * PyTorch's free hook. NULL and size 0 are accepted.
 * Ownership: the block is the library's again. Order: as cenote_free. Threads: any. Since: 0.1.
 */
void cenote_torch_free(void *ptr, ptrdiff_t size_bytes, int32_t device, cenote_stream_t stream);

/**
 * PyTorch's Tensor.record_stream hook.
 * Ownership: unchanged. Order: as cenote_block_record_stream. Threads: any. Since: 0.1.
 */
void cenote_torch_record_stream(void *ptr, cenote_stream_t stream);

/**
 * PyTorch's torch.cuda.empty_cache hook: empties every default pool.
 * Threads: any. Blocking: as cenote_empty_cache. Since: 0.1.
 */
void cenote_torch_reset(void);

/**
 * PyTorch's set_per_process_memory_fraction hook: limits the device to a share of its total
 * memory.
 * Threads: any. Blocking: never. Errors: a fraction outside 0 to 1 is ignored; cenote_last_error
 * says so.
 * Since: 0.1.
 */
void cenote_torch_memory_fraction(double fraction,
                                  int32_t device);

/**
 * PyTorch's base-allocation hook: start of the block that contains `ptr`, its size to
 * `size_bytes`.
 * Ownership: `size_bytes` may be NULL. Threads: any. Errors: NULL for a foreign address. Since:
 * 0.1.
 */
void *cenote_torch_base_alloc(void *ptr, size_t *size_bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CENOTE_H */
