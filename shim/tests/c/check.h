/* EXPECT and SAME say what was wrong and count it; `return failures();` ends a program. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#include <string.h>

static int failed;

#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            failed++;                                                              \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
        }                                                                          \
    } while (0)

/* Two integers are equal; both are printed when they are not. */
#define SAME(got, wanted)                                                                         \
    do {                                                                                          \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                         \
        if (got_ != wanted_) {                                                                    \
            failed++;                                                                             \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, wanted_); \
        }                                                                                         \
    } while (0)

static int failures(void) { return failed ? 1 : 0; }
#endif
