// What does the driver answer where its documentation is silent or has been seen to differ? One
// line an answer, for people to read; nothing is judged. An answer is the CUresult of the calls, 0
// for success. The questions are in probe_capture.hpp, probe_memory.hpp and probe_cost.hpp.
#include "probe.hpp"
#include "probe_capture.hpp"
#include "probe_cost.hpp"
#include "probe_memory.hpp"

#include <cstring>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace probe;

namespace {

constexpr int NO_DRIVER = 77;
// What the process that asks tells the one that waits for it, in memory both see.
struct Progress {
    volatile int next;
    volatile int failed_start;
};

// Whether a new thread finds the driver as usable as at the beginning: no broken context, and no
// capture left behind.
bool healthy(CUcontext context) {
    bool fine = false;
    std::thread([&] {
        CUevent event = nullptr;
        fine = cuCtxSetCurrent(context) == 0 && cuEventCreate(&event, 2) == 0 &&
               cuEventQuery(event) == 0 && cuEventDestroy(event) == 0 && cuCtxSynchronize() == 0;
    }).join();
    return fine;
}

void show(const Question &q, const std::string &answer) {
    std::printf("%-54s %s\n", q.name.c_str(), answer.c_str());
    std::fflush(stdout);
}

// Asks from a question on, each on a thread of its own, until one wants a process of its own.
void ask(const std::vector<Question> &questions, Progress *progress) {
    int first = progress->next;
    CUcontext context = nullptr;
    CUresult started = cuInit(0);
    if (started == 0) started = cuDevicePrimaryCtxRetain(&context, 0);
    if (started != 0) {
        progress->failed_start = int(started);
        _exit(NO_DRIVER);
    }
    for (int i = first; i < int(questions.size()); ++i) {
        const Question &q = questions[size_t(i)];
        if (q.alone && i > first) _exit(0);
        progress->next = i;
        alarm(20);
        std::string answer;
        std::thread([&] {
            cuCtxSetCurrent(context);
            answer = q.ask();
        }).join();
        answer.erase(answer.find_last_not_of(' ') + 1);
        show(q, answer);
        progress->next = i + 1;
        if (q.alone || !healthy(context)) _exit(0);
    }
    _exit(0);
}

std::string end_of(int status) {
    if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        return signal == SIGALRM ? "no answer in 20 s" : "ended by signal " + number(signal);
    }
    return "ended the process with code " + number(WEXITSTATUS(status));
}

// Runs all questions in child processes; a question that ends its process costs only itself.
int run(const std::vector<Question> &questions) {
    void *shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return std::perror("mmap"), 0;
    auto *progress = new (shared) Progress{0, 0};
    while (progress->next < int(questions.size())) {
        std::fflush(stdout);
        pid_t child = fork();
        if (child < 0) return std::perror("fork"), 0;
        if (child == 0) ask(questions, progress);
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_DRIVER) {
            std::printf("skipped: the driver does not start, code %d\n", progress->failed_start);
            return 0;
        }
        const Question &q = questions[size_t(progress->next)];
        show(q, end_of(status));
        progress->next = progress->next + 1;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 2) {
        std::fprintf(stderr, "usage: probe [LETTERS]   of a to g, all by default\n");
        return 2;
    }
    std::vector<Question> all, chosen;
    ask_ids_of_captured_streams(all);
    ask_beside_a_capture(all);
    ask_without_a_context(all);
    ask_during_own_capture(all);
    ask_addresses(all);
    ask_costs(all);
    for (const Question &q : all)
        if (argc == 1 || std::strchr(argv[1], q.name[0])) chosen.push_back(q);
    return run(chosen);
}
