/* A backend given from C: a device whose memory is one anonymous file, counted handle by handle. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 1 << 16 };

struct device {
    int file;
    uint64_t file_bytes;
    uint64_t created_bytes;
    uint64_t mapped_bytes;
    uint64_t most_bytes;
};

static int32_t reserve(void *user, uint32_t device, uint64_t size_bytes, uint64_t align_bytes,
                       uint64_t *addr) {
    (void)user;
    (void)device;
    /* Over-reserve, then give the rims back: mmap aligns to pages only. */
    char *whole = mmap(NULL, size_bytes + align_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) {
        return 1;
    }
    uint64_t start = ((uint64_t)whole + align_bytes - 1) / align_bytes * align_bytes;
    uint64_t end = (uint64_t)whole + size_bytes + align_bytes;
    if (start > (uint64_t)whole) {
        munmap(whole, start - (uint64_t)whole);
    }
    if (end > start + size_bytes) {
        munmap((void *)(start + size_bytes), end - start - size_bytes);
    }
    *addr = start;
    return 0;
}

static int32_t unreserve(void *user, uint32_t device, uint64_t addr, uint64_t size_bytes) {
    (void)user;
    (void)device;
    return munmap((void *)addr, size_bytes);
}

/* The handle is the offset in the file, plus one: 0 would look like none. */
static int32_t create(void *user, uint32_t device, uint64_t size_bytes, uint64_t *handle) {
    struct device *d = user;
    (void)device;
    if (d->created_bytes + size_bytes > d->most_bytes ||
        ftruncate(d->file, (off_t)(d->file_bytes + size_bytes)) != 0) {
        return 2;
    }
    *handle = d->file_bytes + 1;
    d->file_bytes += size_bytes;
    d->created_bytes += size_bytes;
    return 0;
}

static int32_t release(void *user, uint32_t device, uint64_t handle, uint64_t size_bytes) {
    struct device *d = user;
    (void)device;
    d->created_bytes -= size_bytes;
    return fallocate(d->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(handle - 1),
                     (off_t)size_bytes);
}

static int32_t map(void *user, uint32_t device, uint64_t addr, uint64_t size_bytes,
                   uint64_t handle) {
    struct device *d = user;
    (void)device;
    d->mapped_bytes += size_bytes;
    void *at = mmap((void *)addr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    d->file, (off_t)(handle - 1));
    return at == MAP_FAILED;
}

static int32_t unmap(void *user, uint32_t device, uint64_t addr, uint64_t size_bytes) {
    struct device *d = user;
    (void)device;
    d->mapped_bytes -= size_bytes;
    void *at = mmap((void *)addr, size_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return at == MAP_FAILED;
}

static cenote_backend_vtable table(struct device *device) {
    cenote_backend_vtable made;
    memset(&made, 0, sizeof made);
    made.struct_size = sizeof made;
    made.device_count = 1;
    made.page_bytes = PAGE_BYTES;
    made.total_bytes = device->most_bytes;
    made.host_visible = 1;
    made.user = device;
    made.reserve = reserve;
    made.unreserve = unreserve;
    made.create = create;
    made.release = release;
    made.map = map;
    made.unmap = unmap;
    return made;
}

static void refused(struct device *device) {
    cenote_backend_vtable bad = table(device);
    ANSWERS(CENOTE_E_NULL, cenote_backend_register(NULL));
    bad.map = NULL;
    ANSWERS(CENOTE_E_NULL, cenote_backend_register(&bad));
    bad = table(device);
    bad.struct_size = 4;
    ANSWERS(CENOTE_E_STRUCT_SIZE, cenote_backend_register(&bad));
    bad = table(device);
    bad.page_bytes = 3000;
    ANSWERS(CENOTE_E_ARGUMENT, cenote_backend_register(&bad));
}

static void used(struct device *device) {
    cenote_runtime_info_t info;
    cenote_trim_result trimmed;
    void *blocks[8];
    memset(&info, 0, sizeof info);
    memset(&trimmed, 0, sizeof trimmed);
    info.struct_size = sizeof info;
    trimmed.struct_size = sizeof trimmed;
    ANSWERS(CENOTE_OK, cenote_runtime_info(&info));
    CHECK(info.backend == CENOTE_BACKEND_VTABLE && info.device_count == 1);
    for (int i = 0; i < 8; ++i) {
        ANSWERS(CENOTE_OK, cenote_alloc(CENOTE_DEFAULT_POOL, 300000, NULL, &blocks[i]));
        memset(blocks[i], i + 1, 300000);
    }
    for (int i = 0; i < 8; ++i) {
        const unsigned char *bytes = blocks[i];
        CHECK(bytes[0] == i + 1 && bytes[299999] == i + 1);
    }
    CHECK(device->created_bytes >= 8 * 300000u && device->mapped_bytes >= 8 * 300000u);
    void *large = NULL;
    CHECK(cenote_alloc(CENOTE_DEFAULT_POOL, 2 * device->most_bytes, NULL, &large) != CENOTE_OK);
    CHECK(large == NULL);
    for (int i = 0; i < 8; ++i) {
        ANSWERS(CENOTE_OK, cenote_free(blocks[i], NULL));
    }
    ANSWERS(CENOTE_OK, cenote_empty_cache(-1, &trimmed));
    CHECK(trimmed.returned_bytes > 0 && trimmed.kept_bytes == 0);
    CHECK(device->created_bytes == 0 && device->mapped_bytes == 0);
}

/* Half of the blocks freed: a trim gives their memory back, and the others keep theirs. */
static void trimmed_in_part(struct device *device) {
    enum { COUNT = 16, BYTES = 2 << 20 };
    cenote_pool_desc desc;
    cenote_pool_stats_t stats;
    cenote_trim_result trimmed;
    cenote_pool_t pool = 0;
    unsigned char *blocks[COUNT];
    memset(&desc, 0, sizeof desc);
    memset(&stats, 0, sizeof stats);
    memset(&trimmed, 0, sizeof trimmed);
    desc.struct_size = sizeof desc;
    stats.struct_size = sizeof stats;
    trimmed.struct_size = sizeof trimmed;
    ANSWERS(CENOTE_OK, cenote_pool_create(&desc, &pool));
    for (int i = 0; i < COUNT; ++i) {
        void *block = NULL;
        ANSWERS(CENOTE_OK, cenote_alloc(pool, BYTES, NULL, &block));
        blocks[i] = block;
        memset(block, i + 1, BYTES);
    }
    const uint64_t full = device->created_bytes;
    for (int i = 0; i < COUNT; i += 2) {
        ANSWERS(CENOTE_OK, cenote_free(blocks[i], NULL));
    }
    ANSWERS(CENOTE_OK, cenote_pool_trim(pool, 0, &trimmed));
    ANSWERS(CENOTE_OK, cenote_pool_stats(pool, &stats));
    CHECK(trimmed.returned_bytes > 0 && trimmed.pending_bytes == 0);
    CHECK(device->created_bytes == full - trimmed.returned_bytes);
    CHECK(stats.held_bytes == device->created_bytes && trimmed.kept_bytes == stats.held_bytes);
    CHECK(stats.live_bytes == (uint64_t)COUNT / 2 * BYTES);
    for (int i = 1; i < COUNT; i += 2) {
        CHECK(blocks[i][0] == i + 1 && blocks[i][BYTES / 2] == i + 1);
        CHECK(blocks[i][BYTES - 1] == i + 1);
        ANSWERS(CENOTE_OK, cenote_free_sized(blocks[i], BYTES, NULL));
    }
    ANSWERS(CENOTE_OK, cenote_pool_destroy(pool));
    CHECK(device->created_bytes == 0 && device->mapped_bytes == 0);
}

/* The device refuses: the answer is out of memory, and what it gave before goes back. */
static void refuses(struct device *device) {
    const uint64_t most = device->most_bytes;
    void *block = NULL;
    cenote_error error;
    memset(&error, 0, sizeof error);
    error.struct_size = sizeof error;
    device->most_bytes = 1 << 20;
    ANSWERS(CENOTE_E_OUT_OF_MEMORY, cenote_alloc(CENOTE_DEFAULT_POOL, 8 << 20, NULL, &block));
    ANSWERS(CENOTE_OK, cenote_last_error(&error));
    CHECK(error.backend_code == 2 && error.wanted_bytes >= 8 << 20);
    CHECK(block == NULL && device->created_bytes == 0 && device->mapped_bytes == 0);
    device->most_bytes = most;
    ANSWERS(CENOTE_OK, cenote_alloc(CENOTE_DEFAULT_POOL, 8 << 20, NULL, &block));
    ANSWERS(CENOTE_OK, cenote_free(block, NULL));
    ANSWERS(CENOTE_OK, cenote_empty_cache(-1, NULL));
    CHECK(device->created_bytes == 0);
}

int main(void) {
    static struct device device; /* lives as long as the process, as the header demands */
    device.file = memfd_create("device", 0);
    device.most_bytes = 64 << 20;
    CHECK(device.file >= 0);
    refused(&device);
    cenote_backend_vtable good = table(&device);
    ANSWERS(CENOTE_OK, cenote_backend_register(&good));
    used(&device);
    trimmed_in_part(&device);
    refuses(&device);
    ANSWERS(CENOTE_E_CONFIGURED, cenote_backend_register(&good));
    return check_failures != 0;
}
