/* Wrong arguments from C: each has its status, outputs stay untouched, the state stays intact. */
#include "check.h"

#include <string.h>

static void *const untouched = (void *)0x1234;

static void allocation(void) {
    void *out = untouched;
    ANSWERS(CENOTE_E_NULL, cenote_alloc(CENOTE_DEFAULT_POOL, 4096, NULL, NULL));
    ANSWERS(CENOTE_E_HANDLE, cenote_alloc(0xdeadbeef, 4096, NULL, &out));
    ANSWERS(CENOTE_E_ALIGNMENT, cenote_alloc_aligned(CENOTE_DEFAULT_POOL, 4096, 3, NULL, &out));
    CHECK(cenote_alloc(CENOTE_DEFAULT_POOL, UINT64_MAX, NULL, &out) != CENOTE_OK);
    CHECK(out == untouched);
    ANSWERS(CENOTE_OK, cenote_alloc(CENOTE_DEFAULT_POOL, 0, NULL, &out));
    CHECK(out == NULL);
}

static void descriptor(void) {
    cenote_alloc_desc desc;
    void *out = untouched;
    memset(&desc, 0, sizeof desc);
    desc.size_bytes = 4096;
    ANSWERS(CENOTE_E_NULL, cenote_alloc_ex(CENOTE_DEFAULT_POOL, NULL, NULL, &out));
    ANSWERS(CENOTE_E_STRUCT_SIZE, cenote_alloc_ex(CENOTE_DEFAULT_POOL, &desc, NULL, &out));
    desc.struct_size = sizeof desc;
    desc.flags = 0x80000000u;
    ANSWERS(CENOTE_E_FLAGS, cenote_alloc_ex(CENOTE_DEFAULT_POOL, &desc, NULL, &out));
    CHECK(out == untouched);
    desc.flags = CENOTE_ALLOC_NOWAIT;
    ANSWERS(CENOTE_OK, cenote_alloc_ex(CENOTE_DEFAULT_POOL, &desc, NULL, &out));
    ANSWERS(CENOTE_OK, cenote_free(out, NULL));
}

static void release(void) {
    int local = 0;
    void *block = NULL;
    ANSWERS(CENOTE_OK, cenote_free(NULL, NULL));
    ANSWERS(CENOTE_E_FOREIGN_POINTER, cenote_free(&local, NULL));
    ANSWERS(CENOTE_OK, cenote_alloc(CENOTE_DEFAULT_POOL, 1 << 20, NULL, &block));
    ANSWERS(CENOTE_E_INTERIOR_POINTER, cenote_free((char *)block + 512, NULL));
    ANSWERS(CENOTE_E_SIZE_MISMATCH, cenote_free_sized(block, 4096, NULL));
    ANSWERS(CENOTE_OK, cenote_free_sized(block, 1 << 20, NULL));
    ANSWERS(CENOTE_E_DOUBLE_FREE, cenote_free(block, NULL));
}

static void pools(void) {
    cenote_pool_desc desc;
    cenote_pool_t pool = 7;
    void *block = NULL;
    memset(&desc, 0, sizeof desc);
    desc.struct_size = sizeof desc;
    desc.kind = 99;
    ANSWERS(CENOTE_E_ARGUMENT, cenote_pool_create(&desc, &pool));
    CHECK(pool == 7);
    desc.kind = CENOTE_KIND_DEVICE;
    ANSWERS(CENOTE_OK, cenote_pool_create(&desc, &pool));
    ANSWERS(CENOTE_OK, cenote_alloc(pool, 4096, NULL, &block));
    ANSWERS(CENOTE_E_POOL_BUSY, cenote_pool_destroy(pool));
    ANSWERS(CENOTE_OK, cenote_free(block, NULL));
    ANSWERS(CENOTE_OK, cenote_pool_destroy(pool));
    ANSWERS(CENOTE_E_HANDLE, cenote_pool_destroy(pool));
    ANSWERS(CENOTE_E_HANDLE, cenote_alloc(pool, 4096, NULL, &block));
}

static void last_error(void) {
    cenote_error error;
    memset(&error, 0, sizeof error);
    ANSWERS(CENOTE_E_STRUCT_SIZE, cenote_last_error(&error));
    error.struct_size = sizeof error;
    ANSWERS(CENOTE_E_HANDLE, cenote_pool_reset_peaks(0xdeadbeef));
    ANSWERS(CENOTE_OK, cenote_last_error(&error));
    CHECK(error.status == CENOTE_E_HANDLE);
    CHECK(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
}

static void options(void) {
    ANSWERS(CENOTE_E_NULL, cenote_configure(NULL, "1"));
    ANSWERS(CENOTE_E_OPTION, cenote_configure("no such option", "1"));
    ANSWERS(CENOTE_E_VALUE, cenote_configure("limit", "8 GB?"));
    ANSWERS(CENOTE_E_VALUE, cenote_configure("limit", "0.15"));
    ANSWERS(CENOTE_OK, cenote_configure("backend", "host"));
    CHECK(strcmp(cenote_status_name(12345), "CENOTE_E_UNKNOWN") == 0);
}

int main(void) {
    options();
    allocation();
    ANSWERS(CENOTE_E_CONFIGURED, cenote_configure("backend", "host"));
    descriptor();
    release();
    pools();
    last_error();
    return check_failures != 0;
}
