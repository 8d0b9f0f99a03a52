// Figures of one test program: a line each for people, one JSON object for scripts.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

class Report {
public:
    explicit Report(std::string program) : program_(std::move(program)) {}

    // A figure; with a target it is judged: at most `target` if `below`, else at least.
    void add(const std::string &name, double value, const char *unit) {
        rows_.push_back({name, value, 0, unit, false, false});
    }
    void at_most(const std::string &name, double value, double target, const char *unit) {
        rows_.push_back({name, value, target, unit, true, true});
    }
    void at_least(const std::string &name, double value, double target, const char *unit) {
        rows_.push_back({name, value, target, unit, true, false});
    }
    int missed() const {
        int n = 0;
        for (const Row &r : rows_) n += r.judged && !r.met();
        return n;
    }
    // Prints the rows that are new since the last call, so that a run cut short still shows them.
    void flush() {
        for (; shown_ < rows_.size(); ++shown_) {
            const Row &r = rows_[shown_];
            std::printf("%-44s %14.3f %-8s", r.name.c_str(), r.value, r.unit);
            if (r.judged)
                std::printf(" %s %-10.6g %s", r.below ? "<=" : ">=", r.target,
                            r.met() ? "ok" : "MISSED");
            std::printf("\n");
        }
        std::fflush(stdout);
    }
    bool write_json(const char *path) const {
        std::FILE *f = std::fopen(path, "w");
        if (!f) return false;
        std::fprintf(f, "{\"program\":\"%s\",\"missed\":%d,", program_.c_str(), missed());
        std::fprintf(f, "\"figures\":{");
        for (size_t i = 0; i < rows_.size(); ++i) {
            const Row &r = rows_[i];
            std::fprintf(f, "%s\"%s\":{\"value\":%.6g,\"unit\":\"%s\"", i ? "," : "",
                         r.name.c_str(), r.value, r.unit);
            if (r.judged)
                std::fprintf(f, ",\"target\":%.6g,\"met\":%s", r.target,
                             r.met() ? "true" : "false");
            std::fprintf(f, "}");
        }
        std::fprintf(f, "}}\n");
        return std::fclose(f) == 0;
    }

private:
    struct Row {
        std::string name;
        double value, target;
        const char *unit;
        bool judged, below;
        bool met() const { return below ? value <= target : value >= target; }
    };
    std::string program_;
    std::vector<Row> rows_;
    size_t shown_ = 0;
};
