// The smallest test kit: each CHECK is counted, a failed one says where and what.
#ifndef CENOTE_TESTS_CHECK_HPP
#define CENOTE_TESTS_CHECK_HPP

#include <cstdio>

struct check_counts {
    int passed = 0;
    int failed = 0;
};

inline check_counts& counts() {
    static check_counts made;
    return made;
}

inline void check(bool good, const char* text, const char* file, int line) {
    if (good) {
        ++counts().passed;
        return;
    }
    ++counts().failed;
    std::fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
}

#define CHECK(condition) check(static_cast<bool>(condition), #condition, __FILE__, __LINE__)

// Prints the tally; the exit code of the program.
inline int finish(const char* name) {
    std::printf("%s: %d passed, %d failed\n", name, counts().passed, counts().failed);
    return counts().failed == 0 && counts().passed > 0 ? 0 : 1;
}

#endif  // CENOTE_TESTS_CHECK_HPP
