// Questions about addresses, physical memory and mappings: f.
#pragma once
#include "probe.hpp"

namespace probe {

// Reserved addresses with a mapped handle at their beginning. What is left at the end goes with the
// process: these questions may have spoilt it.
struct Room {
    size_t unit = page();
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle first = 0, second = 0;

    // `pages` of addresses; the first handle, of two pages, is mapped at their beginning.
    explicit Room(size_t pages, bool mapped = true) {
        cuMemAddressReserve(&at, pages * unit, 0, 0, 0);
        create(2 * unit, &first);
        create(2 * unit, &second);
        if (!mapped) return;
        cuMemMap(at, 2 * unit, 0, first, 0);
        allow(at, 2 * unit);
    }
    CUdeviceptr page_at(size_t n) const { return at + n * unit; }
    CUresult map(size_t n, size_t pages, CUmemGenericAllocationHandle handle) const {
        return cuMemMap(page_at(n), pages * unit, 0, handle, 0);
    }
    CUresult unmap(size_t n, size_t pages) const { return cuMemUnmap(page_at(n), pages * unit); }
    // Whether the device can write and read a place.
    std::string usable(CUdeviceptr place) const {
        unsigned char byte = 0;
        CUresult wrote = cuMemsetD8Async(place, 7, 1, CU_STREAM_LEGACY);
        CUresult read = cuMemcpyDtoH(&byte, place, 1);
        return code("write", wrote) + code("read", read) + "byte " + number(byte) + " ";
    }
};

inline std::string hex(long long n) {
    char text[32];
    std::snprintf(text, sizeof text, "%s0x%llx", n < 0 ? "-" : "", n < 0 ? -n : n);
    return text;
}

inline std::string largest_reservation() {
    for (int bits = 62; bits > 30; --bits) {
        CUdeviceptr at = 0;
        if (cuMemAddressReserve(&at, size_t(1) << bits, 0, 0, 0) != 0) continue;
        CUresult freed = cuMemAddressFree(at, size_t(1) << bits);
        return "2^" + number(bits) + ", " + code("free", freed);
    }
    return "none";
}

inline void ask_reservations(std::vector<Question> &all) {
    all.push_back({"f reserve 2^62", false, [] {
                       CUdeviceptr at = 0;
                       CUresult r = cuMemAddressReserve(&at, size_t(1) << 62, 0, 0, 0);
                       if (r == 0) cuMemAddressFree(at, size_t(1) << 62);
                       return code("reserve", r);
                   }});
    all.push_back({"f largest reservation", false, largest_reservation});
    all.push_back({"f distance of two reservations of 4 pages, page", false, [] {
                       size_t bytes = 4 * page();
                       CUdeviceptr a = 0, b = 0;
                       cuMemAddressReserve(&a, bytes, 0, 0, 0);
                       cuMemAddressReserve(&b, bytes, 0, 0, 0);
                       cuMemAddressFree(a, bytes);
                       cuMemAddressFree(b, bytes);
                       return hex((long long)(b - a)) + ", " + hex((long long)page());
                   }});
    auto free_part = [&](const char *name, bool mapped, size_t from, size_t pages) {
        all.push_back({std::string("f free of ") + name, true, [=] {
                           Room r(4, mapped);
                           CUresult freed = cuMemAddressFree(r.page_at(from), pages * r.unit);
                           std::string answer = code("free", freed);
                           if (mapped) answer += r.usable(r.at);
                           else answer += code("map of page 0", r.map(0, 2, r.first));
                           answer += code("unmap", r.unmap(0, 2));
                           return answer + code("whole", cuMemAddressFree(r.at, 4 * r.unit));
                       }});
    };
    free_part("the first half", false, 0, 2);
    free_part("the second half", false, 2, 2);
    free_part("more than was reserved", false, 0, 8);
    free_part("a mapped reservation", true, 0, 4);
    free_part("the unmapped half of a mapped reservation", true, 2, 2);
}

// Maps the second handle and, if that went well, uses and unmaps it.
inline std::string try_map(const Room &r, CUdeviceptr place, size_t bytes) {
    CUresult mapped = cuMemMap(place, bytes, 0, r.second, 0);
    std::string answer = code("map", mapped);
    if (mapped != 0) return answer;
    CUresult allowed = allow(place, bytes);
    answer += code("access", allowed);
    if (allowed == 0) answer += r.usable(place);
    return answer + code("unmap", cuMemUnmap(place, bytes));
}

inline void ask_mappings(std::vector<Question> &all) {
    auto map_at = [&](const char *name, long long from, size_t pages) {
        all.push_back({std::string("f map ") + name, true, [=] {
                           Room r(4);
                           auto place = CUdeviceptr((long long)r.at + from * (long long)r.unit);
                           return try_map(r, place, pages * r.unit);
                       }});
    };
    map_at("where it should be", 2, 2);
    map_at("over a mapping", 0, 2);
    map_at("across a mapping", 1, 2);
    map_at("of half a handle", 2, 1);
    map_at("of more than a handle", 2, 3);
    map_at("across the end of the reservation", 3, 2);
    map_at("right behind the reservation", 4, 2);
    map_at("right before the reservation", -2, 2);
    map_at("far behind the reservation", 1 << 20, 2);
    all.push_back({"f map across two adjoining reservations", true, [] {
                       Room r(4);
                       CUdeviceptr next = 0;
                       cuMemAddressReserve(&next, 4 * r.unit, 0, r.page_at(4), 0);
                       std::string where = next == r.page_at(4) ? "adjoining: " : "not adjoining: ";
                       return where + try_map(r, r.page_at(3), 2 * r.unit);
                   }});
    all.push_back({"f map behind the end, then reserve and map twice", true, [] {
                       Room r(4);
                       CUresult past = r.map(3, 2, r.second);
                       std::string answer = code("map", past);
                       for (int i = 0; i < 2; ++i) {
                           Room later(4, false);
                           CUresult mapped = later.map(0, 2, later.first);
                           answer += "at " + hex((long long)(later.at - r.at)) + " " +
                                     code("map", mapped);
                       }
                       return answer;
                   }});
    all.push_back({"f access of nothing, across a gap, of half a mapping", true, [] {
                       Room r(4);
                       std::string answer = code("nothing", allow(r.page_at(2), r.unit));
                       answer += code("gap", allow(r.at, 4 * r.unit));
                       answer += code("half", allow(r.at, r.unit));
                       return answer + r.usable(r.at);
                   }});
}

inline void ask_unmappings(std::vector<Question> &all) {
    auto unmap = [&](const char *name, size_t from, size_t pages) {
        all.push_back({std::string("f unmap of ") + name, true, [=] {
                           Room r(4);
                           std::string answer = code("unmap", r.unmap(from, pages));
                           answer += code("whole", r.unmap(0, 2));
                           return answer + code("again", r.unmap(0, 2));
                       }});
    };
    unmap("the first half of a mapping", 0, 1);
    unmap("the second half of a mapping", 1, 1);
    unmap("a mapping and what is behind it", 0, 4);
    unmap("nothing", 2, 2);
    all.push_back({"f unmap of two whole mappings", true, [] {
                       Room r(4);
                       std::string answer = code("map", r.map(2, 2, r.second));
                       return answer + code("unmap", r.unmap(0, 4));
                   }});
    all.push_back({"f release while mapped", true, [] {
                       Room r(4);
                       size_t before = 0, after = 0, total = 0;
                       std::string answer = code("release", cuMemRelease(r.first));
                       answer += r.usable(r.at);
                       cuMemGetInfo(&before, &total);
                       answer += code("unmap", r.unmap(0, 2));
                       cuMemGetInfo(&after, &total);
                       return answer + "freed " + hex((long long)after - (long long)before);
                   }});
    all.push_back({"f release twice, while nothing is mapped", true, [] {
                       Room r(4, false);
                       std::string answer = code("release", cuMemRelease(r.first));
                       return answer + code("again", cuMemRelease(r.first));
                   }});
    all.push_back({"f map of a released handle", true, [] {
                       Room r(4, false);
                       cuMemRelease(r.first);
                       return code("map", r.map(0, 2, r.first));
                   }});
}

// f: what the calls of virtual memory management refuse.
inline void ask_addresses(std::vector<Question> &all) {
    ask_reservations(all);
    ask_mappings(all);
    ask_unmappings(all);
    all.push_back({"f create of nothing, of a page and a byte", false, [] {
                       std::string answer;
                       for (size_t bytes : {size_t(0), page() + 1}) {
                           CUmemGenericAllocationHandle handle = 0;
                           CUresult r = create(bytes, &handle);
                           if (r == 0) cuMemRelease(handle);
                           answer += code("create", r);
                       }
                       return answer;
                   }});
}

} // namespace probe
