// Checks of memory accesses: bounds, alignment, and races.
//
// Two accesses to one place race if they come from different threads, at least one writes, and no
// barrier lies between them: __syncthreads orders the threads of a block, __syncwarp those of a
// warp, nothing orders those of different blocks. A write that leaves the value as it is does no
// harm, so a suspicious write is settled at the next access, when its value is there.
#include "memory.h"

#include <cstring>
#include <sys/mman.h>

#include "scheduler.h"

namespace {

constexpr uint32_t SAME_VALUES = 0xffffffffu, IN_FLIGHT = 0xfffffffeu;

struct Pending {
  const Region* region;
  size_t first, count;
  Access earlier;
  bool after_read;
  std::vector<char> old;
};
std::vector<Pending> pending;

bool same_block(uint32_t one, uint32_t other) {
  const unsigned* b = running.launch->block;
  uint32_t threads = b[0] * b[1] * b[2];
  return (one - 1) / threads == (other - 1) / threads;
}

bool same_warp(uint32_t one, uint32_t other) {
  const unsigned* b = running.launch->block;
  uint32_t threads = b[0] * b[1] * b[2];
  return same_block(one, other) && (one - 1) % threads / 32 == (other - 1) % threads / 32;
}

bool ordered(const Access& before, const Access& now) {
  if (before.thread == 0 || before.thread == now.thread || before.thread == SAME_VALUES) return true;
  if (before.thread == IN_FLIGHT) return false;
  if (!same_block(before.thread, now.thread)) return false;
  if (before.block != now.block) return true;
  return same_warp(before.thread, now.thread) && before.warp != now.warp;
}

// Whether the writer made its write visible to the asynchronous proxy, and a barrier came after.
bool fenced(const Place& place, const Access& now) {
  if (place.write.thread == 0 || place.write.thread == SAME_VALUES) return true;
  const std::vector<uint16_t>& fences = fiber_of(place.write.thread).proxy_fences;
  return place.fences < fences.size() && fences[place.fences] != now.block;
}

std::string place_text(const Region& region, size_t unit) {
  std::string index = std::to_string(unit);
  return region.unit == 1 && &region >= shared_memory.regions.data() &&
                 &region < shared_memory.regions.data() + shared_memory.regions.size()
             ? "byte " + index + " of shared memory " + region.name
             : "element " + index + " of " + region.name;
}

void race(const Region& region, size_t unit, const Access& earlier, const char* what) {
  std::string other = earlier.thread == IN_FLIGHT ? "an asynchronous copy that nobody has waited for"
                                                  : thread_text(earlier.thread);
  report("race", region.name + "|" + what + "|" + place_text(region, unit) + ": " +
                     thread_text(access_now().thread) + " " + what + " " + other +
                     ", and no barrier lies between");
}

void note_read(Place& place, const Access& now) {
  if (place.read.thread == now.thread) {
    place.read = now;
    return;
  }
  // Keep one read of another warp if there is one, else one of another thread.
  bool keep_other = place.other_read.thread && !same_warp(place.other_read.thread, now.thread) &&
                    place.other_read.block == now.block &&
                    same_block(place.other_read.thread, now.thread);
  if (!keep_other) place.other_read = place.read;
  place.read = now;
}

void check_unit(const Region& region, size_t unit, Kind kind, bool& suspicious, bool& after_read,
                Access& earlier) {
  Place& place = region.places[unit];
  Access now = access_now();
  if (kind == Kind::read || kind == Kind::asynchronous_read) {
    if (!ordered(place.write, now)) race(region, unit, place.write, "reads what was written by");
    else if (kind == Kind::asynchronous_read && !fenced(place, now))
      report("race", region.name + "|proxy|" + place_text(region, unit) + ": a wgmma of " +
                         thread_text(now.thread) + " reads what was written by " +
                         thread_text(place.write.thread) +
                         ", and no fence.proxy.async of that thread and barrier lie between");
    note_read(place, now);
    return;
  }
  bool atomic = kind == Kind::atomic;
  // The highest bit of `warp` marks atomic writes.
  Access written = place.write;
  bool both_atomic = atomic && (written.warp & 0x8000);
  if (!both_atomic && !ordered(written, now)) {
    suspicious = true;
    earlier = written;
  }
  for (const Access* read : {&place.read, &place.other_read}) {
    if (!ordered(*read, now) && !suspicious) {
      suspicious = after_read = true;
      earlier = *read;
    }
  }
  if (atomic) now.warp |= 0x8000;
  place.write = now;
  place.fences = uint16_t(running.fiber->proxy_fences.size());
}

}  // namespace

char* map_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("memory", "no memory for " + std::to_string(bytes) + " bytes");
  return (char*)memory;
}

const Region* Arena::find(const void* address, size_t size) {
  auto inside = [&](const Region& region) {
    return (char*)address >= region.start && (char*)address + size <= region.start + region.bytes;
  };
  if (last && inside(*last)) return last;
  for (const Region& region : regions)
    if (inside(region)) return last = &region;
  return nullptr;
}

void reset_places(Arena& arena) {
  for (Region& region : arena.regions)
    std::memset((void*)region.places, 0, sizeof(Place) * (region.bytes / region.unit + 1));
}

void settle_writes() {
  for (const Pending& one : pending) {
    char* start = one.region->start + one.first * one.region->unit;
    if (std::memcmp(start, one.old.data(), one.old.size()) != 0) {
      race(*one.region, one.first, one.earlier,
           one.after_read ? "overwrites what is read by" : "overwrites what was written by");
    } else if (!one.after_read) {
      for (size_t unit = one.first; unit < one.first + one.count; ++unit)
        one.region->places[unit].write.thread = SAME_VALUES;
    }
  }
  pending.clear();
}

void check_access(Arena& arena, const void* address, size_t bytes, Kind kind) {
  if (!pending.empty()) settle_writes();
  const Region* region = arena.find(address, bytes);
  if (!region) {
    bool reads = kind == Kind::read || kind == Kind::asynchronous_read;
    std::string text = reads ? " reads " : " writes ";
    text = thread_text(access_now().thread) + text + std::to_string(bytes) + " bytes ";
    const Region* nearest = nullptr;
    for (const Region& one : arena.regions)
      if (one.start <= (char*)address && (!nearest || one.start > nearest->start)) nearest = &one;
    if (nearest)
      text += "at byte " + std::to_string((char*)address - nearest->start) + " of " +
              nearest->name + ", which has " + std::to_string(nearest->bytes);
    else
      text += arena.shared ? "of shared memory that has no variable" : "in front of all buffers";
    fail("out_of_bounds", text);
  }
  size_t first = ((char*)address - region->start) / region->unit;
  size_t end = ((char*)address - region->start + bytes + region->unit - 1) / region->unit;
  bool suspicious = false, after_read = false;
  Access earlier;
  for (size_t unit = first; unit < end; ++unit)
    check_unit(*region, unit, kind, suspicious, after_read, earlier);
  if (suspicious) {
    char* start = region->start + first * region->unit;
    pending.push_back({region, first, end - first, earlier, after_read,
                       std::vector<char>(start, start + (end - first) * region->unit)});
    if (earlier.thread == IN_FLIGHT) race(*region, first, earlier, "overwrites");
  }
}

void fill_unwritten(void* start, size_t bytes) {
  std::memset(start, 0xff, bytes);
  if (running.order % 3 == 0) return;
  for (size_t word = 0; word < bytes / 8; ++word) {
    bool above = (word * 0x9e3779b97f4a7c15u >> 63) == unsigned(running.order % 3 == 1);
    std::memset((char*)start + 8 * word, above ? 0x7b : 0xfb, 8);
  }
}

void start_flight(const void* address, size_t bytes) {
  check_access(shared_memory, address, bytes, Kind::write);
  std::memset((void*)address, 0xff, bytes);
  settle_writes();
  const Region* region = shared_memory.find(address, bytes);
  size_t first = (char*)address - region->start;
  for (size_t unit = first; unit < first + bytes; ++unit)
    region->places[unit].write.thread = IN_FLIGHT;
}

void end_flight(const void* address, size_t bytes) {
  const Region* region = shared_memory.find(address, bytes);
  size_t first = (char*)address - region->start;
  uint16_t fences = uint16_t(running.fiber->proxy_fences.size());
  for (size_t unit = first; unit < first + bytes; ++unit)
    region->places[unit].write = access_now(), region->places[unit].fences = fences;
}
