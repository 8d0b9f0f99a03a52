/* cenote and a second Rust static library in one program. */
#include <cenote.h>
#include <stdio.h>

uint32_t second_call(uint32_t value);

int main(void) {
    void *block = NULL;
    if (second_call(42) != 2 || second_call(1000) != 0) {
        return 1;
    }
    if (cenote_abi_version() != CENOTE_ABI_VERSION) {
        return 2;
    }
    if (cenote_configure("backend", "host") != CENOTE_OK) {
        return 3;
    }
    if (cenote_alloc(CENOTE_DEFAULT_POOL, 4096, NULL, &block) != CENOTE_OK || block == NULL) {
        return 4;
    }
    if (cenote_free(block, NULL) != CENOTE_OK) {
        return 5;
    }
    puts("ok");
    return 0;
}
