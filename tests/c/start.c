/* The C example of README.md. */
#include <cenote.h>
#include <stdio.h>

static int start(cenote_stream_t stream) {
    void *block = NULL;
    cenote_status status = cenote_alloc(CENOTE_DEFAULT_POOL, 1 << 20, stream, &block);
    if (status != CENOTE_OK) {
        fprintf(stderr, "%s\n", cenote_status_name(status));
        return 1;
    }
    /* work queued on stream uses the block */
    cenote_free(block, stream);
    return 0;
}

int main(void) {
    return start(NULL);
}
