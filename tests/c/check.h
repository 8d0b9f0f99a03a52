/* What the C programs of this folder share: a check that says where it failed. */
#ifndef CHECK_H
#define CHECK_H

#include <cenote.h>
#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
            ++check_failures;                                                   \
        }                                                                       \
    } while (0)

/* The call answers this status. */
#define ANSWERS(wanted, call)                                                          \
    do {                                                                               \
        cenote_status check_status = (call);                                           \
        if (check_status != (wanted)) {                                                \
            fprintf(stderr, "%s:%d: %s gives %s, not %s\n", __FILE__, __LINE__, #call, \
                    cenote_status_name(check_status), #wanted);                        \
            ++check_failures;                                                          \
        }                                                                              \
    } while (0)

#endif
