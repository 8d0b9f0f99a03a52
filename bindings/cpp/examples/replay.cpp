// Replay a list of operations through the C++ binding and say what it cost.
//
//     replay FILE       each line "+ ID BYTES" or "- ID"; see `cenote trace convert --to ops`
//
// One line comes out: operations, peak of live and held bytes, their ratio, time an operation.
#include <cenote.hpp>

#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

struct operation {
    bool allocate;
    std::size_t slot;  // dense number of the block
    std::uint64_t bytes;
};

struct trace {
    std::vector<operation> operations;
    std::size_t slots = 0;
    std::string complaint;  // empty if the whole file was read
};

// One line into the trace; false if it is no operation.
static bool add(trace& made, std::unordered_map<std::string, std::size_t>& live,
                const std::string& line) {
    std::istringstream words(line);
    std::string sign, id, rest;
    words >> sign >> id;
    if (sign == "+") {
        std::string digits;
        std::uint64_t bytes = 0;
        words >> digits;
        const char* end = digits.data() + digits.size();
        const auto parsed = std::from_chars(digits.data(), end, bytes);
        if (parsed.ec != std::errc() || parsed.ptr != end || words >> rest ||
            !live.emplace(id, made.slots).second) {
            return false;
        }
        made.operations.push_back({true, made.slots++, bytes});
        return true;
    }
    const auto found = live.find(id);
    if (sign != "-" || words >> rest || found == live.end()) {
        return false;
    }
    made.operations.push_back({false, found->second, 0});
    live.erase(found);
    return true;
}

static trace read(const char* path) {
    trace made;
    std::unordered_map<std::string, std::size_t> live;
    std::ifstream file(path);
    if (!file) {
        made.complaint = std::string(path) + ": cannot be read";
        return made;
    }
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        if (!line.empty() && line[0] != '#' && !add(made, live, line)) {
            made.complaint = std::string(path) + ":" + std::to_string(number) +
                             ": expected '+ ID BYTES' of a new block or '- ID' of a live one";
            return made;
        }
    }
    return made;
}

// Runs every operation; the time in nanoseconds.
static double run(const trace& todo, const cenote::pool& pool) {
    std::vector<cenote::buffer<unsigned char>> blocks(todo.slots);
    const auto start = std::chrono::steady_clock::now();
    for (const auto& op : todo.operations) {
        if (op.allocate) {
            blocks[op.slot] =
                cenote::buffer<unsigned char>::allocate(op.bytes, {}, pool).value();
        } else {
            blocks[op.slot].free().value();
        }
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::nano>(spent).count();
}

static int replay(const char* path) {
    const auto todo = read(path);
    if (!todo.complaint.empty() || todo.operations.empty()) {
        std::fprintf(stderr, "%s\n", todo.complaint.empty() ? "the file has no operations"
                                                            : todo.complaint.c_str());
        return 1;
    }
    const auto pool = cenote::pool::create().value();
    const double spent_ns = run(todo, pool);
    const auto stats = pool.stats().value();
    const double live = static_cast<double>(stats.peak_live_bytes);
    const double held = static_cast<double>(stats.peak_held_bytes);
    std::printf("%-8s %9zu ops  peak live %10.1f MiB  peak held %10.1f MiB  ratio %6.4f"
                "  %8.1f ns/op\n",
                "C++", todo.operations.size(), live / 1048576, held / 1048576,
                live > 0 ? held / live : 1.0,
                spent_ns / static_cast<double>(todo.operations.size()));
    return 0;
}

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: replay FILE (lines '+ ID BYTES' and '- ID')\n");
        return 2;
    }
    try {
        return replay(argv[1]);
    } catch (const cenote::error& e) {
        std::fprintf(stderr, "%s: %s\n", argv[1], e.what());
        return 1;
    }
}
