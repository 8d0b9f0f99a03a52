// Does growing and shrinking a pool slow other streams' kernels? One thread launches short kernels
// without pause while another grows and trims; windows with and without it alternate, so that
// clocks and neighbours weigh on both. A cudaMalloc/cudaFree loop is measured beside it.
#include "gpu.cuh"
#include "report.hpp"

#include "../../benches/peers/workloads.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using workloads::Clock;

namespace {

enum Load { ALONE, POOL, DRIVER, LOADS };
const char *const NAMES[LOADS] = {"alone", "pool grows and trims", "cudaMalloc and cudaFree"};

__global__ void short_kernel(int *p) {
    if (threadIdx.x == 0) atomicAdd(p, 1);
}

std::atomic<int> wanted{ALONE};
std::atomic<bool> stop{false};
std::atomic<long> rounds[LOADS];
std::atomic<uint64_t> created{0}, released{0};

// Takes 1 GiB in 64 MiB blocks and gives all of it back to the driver.
void pool_round(cenote_pool_t pool, cudaStream_t s) {
    void *blocks[16];
    for (void *&p : blocks)
        cenote_must(cenote_alloc(pool, 64u << 20, s, &p), "cenote_alloc");
    for (void *p : blocks) cenote_must(cenote_free(p, s), "cenote_free");
    cenote_trim_result t{};
    t.struct_size = sizeof t;
    cenote_must(cenote_pool_trim(pool, 0, &t), "cenote_pool_trim");
}

void driver_round() {
    void *p = nullptr;
    cuda_must(cudaMalloc(&p, 64u << 20), "cudaMalloc");
    cuda_must(cudaFree(p), "cudaFree");
}

void loader() {
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    cenote_pool_t pool = new_pool("rate");
    cudaStream_t s = gpu::new_stream();
    while (!stop) {
        int load = wanted;
        if (load == POOL) pool_round(pool, s);
        else if (load == DRIVER) driver_round();
        else std::this_thread::sleep_for(std::chrono::milliseconds(1));
        rounds[load].fetch_add(1);
    }
    cenote_pool_stats_t st = pool_stats(pool);
    created = st.driver_create_count;
    released = st.driver_release_count;
    cenote_must(cenote_pool_destroy(pool), "cenote_pool_destroy");
}

// Kernels a second over one window.
double window(Load load, double seconds, cudaStream_t s, int *counter) {
    wanted = load;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    long kernels = 0;
    auto start = Clock::now();
    while (workloads::ns_since(start) < seconds * 1e9) {
        for (int i = 0; i < 256; ++i) short_kernel<<<1, 32, 0, s>>>(counter);
        gpu::launched("short kernel");
        cuda_must(cudaStreamSynchronize(s), "cudaStreamSynchronize");
        kernels += 256;
    }
    return double(kernels) / workloads::ns_since(start) * 1e9;
}

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

} // namespace

int main(int argc, char **argv) {
    int windows = 7;
    double seconds = 0.8;
    const char *json = nullptr;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string key = argv[i];
        if (key == "--windows") windows = std::atoi(argv[i + 1]);
        else if (key == "--seconds") seconds = std::atof(argv[i + 1]);
        else if (key == "--json") json = argv[i + 1];
        else return 2;
    }
    cuda_must(cudaSetDevice(0), "cudaSetDevice");
    int *counter = nullptr;
    cuda_must(cudaMalloc(&counter, sizeof *counter), "cudaMalloc");
    cudaStream_t s = gpu::new_stream();
    std::thread load(loader);
    window(ALONE, seconds, s, counter);
    window(POOL, seconds, s, counter);
    std::vector<double> rates[LOADS];
    for (int i = 0; i < windows; ++i) {
        rates[ALONE].push_back(window(ALONE, seconds, s, counter));
        rates[POOL].push_back(window(POOL, seconds, s, counter));
        if (i < 3) rates[DRIVER].push_back(window(DRIVER, seconds / 2, s, counter));
    }
    stop = true;
    load.join();
    for (int l = 0; l < LOADS; ++l) {
        std::printf("%-24s", NAMES[l]);
        for (double rate : rates[l]) std::printf(" %8.0f", rate);
        std::printf(" kernels/s\n");
    }
    Report r("kernel_rate");
    double alone = median(rates[ALONE]);
    r.add("kernels a second alone", alone, "/s");
    r.add("while the pool grows and trims", median(rates[POOL]), "/s");
    r.at_least("share of the rate alone", median(rates[POOL]) / alone, 0.97, "");
    r.add("rounds of 1 GiB up and down", double(rounds[POOL]), "");
    r.at_least("handles created meanwhile", double(created), 100, "");
    r.at_least("handles released meanwhile", double(released), 100, "");
    r.add("share beside cudaMalloc and cudaFree", median(rates[DRIVER]) / alone, "");
    r.flush();
    if (json && !r.write_json(json)) return 2;
    return r.missed() ? 1 : 0;
}
