/* cenote_dl.h from C. Argument: what cenote_dl_open must answer here, "ok", "absent" or "abi". */
#define _POSIX_C_SOURCE 200809L

#include "cenote_dl.h"

static int expect_status(const char *what) {
    if (strcmp(what, "absent") == 0) {
        return CENOTE_E_NO_LIBRARY;
    }
    return strcmp(what, "abi") == 0 ? CENOTE_E_ABI : CENOTE_OK;
}

static int fail(const char *what, int got) {
    fprintf(stderr, "dl: %s (status %d)\n", what, got);
    return 1;
}

/* Nothing may be left to call after a failure, and the message says why. */
static int check_failure(const cenote_dl_api *api) {
    if (api->library != NULL || api->cenote_alloc != NULL || api->cenote_abi_version != NULL) {
        return fail("a pointer is left after a failure", 0);
    }
    if (api->message[0] == '\0') {
        return fail("no message after a failure", 0);
    }
    printf("dl: 1 passed, 0 failed (%s)\n", api->message);
    return 0;
}

int main(int argc, char **argv) {
    static cenote_dl_api api, again;
    const char *what = argc > 1 ? argv[1] : "ok";
    void *ptr = NULL;
    int status = cenote_dl_open(&api);
    if (status != expect_status(what)) {
        fprintf(stderr, "%s\n", api.message);
        return fail("unexpected answer of cenote_dl_open", status);
    }
    if (cenote_dl_open(NULL) != CENOTE_E_NULL) {
        return fail("a NULL table was accepted", 0);
    }
    if (status != CENOTE_OK) {
        return check_failure(&api);
    }
    /* The copy that is loaded is found first, whatever the variable names by now. */
    if (setenv("CENOTE_LIBRARY", "/nonexistent/libcenote.so.0", 1) != 0 ||
        cenote_dl_open(&again) != CENOTE_OK || again.cenote_alloc != api.cenote_alloc) {
        return fail("a second table did not find the loaded library", 0);
    }
    status = api.cenote_alloc(CENOTE_DEFAULT_POOL, 1000, NULL, &ptr);
    if (status != CENOTE_OK || ptr == NULL) {
        return fail("cenote_alloc", status);
    }
    status = again.cenote_free(ptr, NULL);
    if (status != CENOTE_OK) {
        return fail("cenote_free", status);
    }
    printf("dl: 1 passed, 0 failed\n");
    return 0;
}
