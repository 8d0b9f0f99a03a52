/* What the Go code calls: each function does one call of the library and, if that fails, copies the
 * details before it returns. A goroutine may go on in another thread after a call of C, where the
 * library's last error is another one. */
#ifndef CENOTE_GO_BRIDGE_H
#define CENOTE_GO_BRIDGE_H

#include "cenote.h"

/* Result of a call: a status, one value, and after a failure its details. The caller frees them;
 * they are NULL if the host has no memory left for them. */
typedef struct {
    uint64_t value;
    cenote_error *details;
    cenote_status status;
} cenote_go_result;

cenote_go_result cenote_go_load(void);
cenote_go_result cenote_go_alloc(uint64_t pool, uint64_t size_bytes, uint64_t stream);
cenote_go_result cenote_go_alloc_ex(uint64_t pool, uint64_t size_bytes, uint64_t align_bytes,
                                    uint32_t flags, uint64_t stream);
cenote_go_result cenote_go_free(uint64_t ptr, uint64_t stream);
cenote_go_result cenote_go_block_info(uint64_t ptr, cenote_block_info_t *out);
cenote_go_result cenote_go_block_segments(uint64_t ptr, cenote_segment_t *out, uint32_t count);
cenote_go_result cenote_go_block_pin(uint64_t ptr, int pin);
cenote_go_result cenote_go_block_use(uint64_t ptr, uint64_t stream, int begin);

cenote_go_result cenote_go_pool_create(const cenote_pool_desc *desc);
cenote_go_result cenote_go_pool_default(int32_t device);
cenote_go_result cenote_go_pool_destroy(uint64_t pool);
cenote_go_result cenote_go_pool_trim(uint64_t pool, uint64_t keep_bytes, cenote_trim_result *out);
cenote_go_result cenote_go_pool_stats(uint64_t pool, cenote_pool_stats_t *out);
cenote_go_result cenote_go_pool_reset_peaks(uint64_t pool);

cenote_go_result cenote_go_stream_register(int32_t device, uint64_t raw, uint32_t promises);
cenote_go_result cenote_go_stream_retire(uint64_t stream);
cenote_go_result cenote_go_capture_begin(uint64_t stream);
cenote_go_result cenote_go_capture_end(uint64_t stream);
cenote_go_result cenote_go_graph_release(uint64_t graph);

cenote_go_result cenote_go_configure(const char *name, const char *value);
cenote_go_result cenote_go_option_at(uint32_t index, cenote_option_t *out);
uint32_t cenote_go_option_count(void);
cenote_go_result cenote_go_runtime_info(cenote_runtime_info_t *out);
cenote_go_result cenote_go_device_count(void);
cenote_go_result cenote_go_device_info(int32_t device, cenote_device_info_t *out);
cenote_go_result cenote_go_device_limit(int32_t device, uint64_t limit_bytes);
cenote_go_result cenote_go_empty_cache(int32_t device, cenote_trim_result *out);
cenote_go_result cenote_go_poll(void);
cenote_go_result cenote_go_shutdown(void);
const char *cenote_go_version(void);

#endif /* CENOTE_GO_BRIDGE_H */
