// Global and shared memory of the emulated device, and the checks of each access to them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Who accessed a byte or an element, and when: `thread` counts the threads of a launch from 1, and
// `block` and `warp` the barriers that its block and its warp had passed.
struct Access {
  uint32_t thread = 0;
  uint16_t block = 0, warp = 0;
};

// The last write of a place, and the last reads by different threads.
struct Place {
  Access write, read, other_read;
  uint16_t fences = 0;  // fence.proxy.async that the last writer had passed
};

// A buffer: `unit` is the size of the parts that are checked, in bytes.
struct Region {
  std::string name;
  char* start;
  size_t bytes, unit;
  Place* places;
};

// Memory that lies in one piece, with guards around each region.
struct Arena {
  char* start = nullptr;
  size_t bytes = 0;
  bool shared = false;
  std::vector<Region> regions;
  const Region* last = nullptr;

  bool holds(const void* address) const {
    return (char*)address >= start && (char*)address < start + bytes;
  }
  const Region* find(const void* address, size_t size);
};

// Asynchronous reads are those of tensor cores.
enum class Kind { read, asynchronous_read, write, atomic };

char* map_memory(size_t bytes);
void reset_places(Arena& arena);
void check_access(Arena& arena, const void* address, size_t bytes, Kind kind);
// Compares what pending writes have written with what was there; see memory.cpp.
void settle_writes();
// Marks places that an asynchronous copy is under way to; and again as usual.
void start_flight(const void* address, size_t bytes);
// What memory holds that nobody has written: NaN, or numbers far above and far below all others,
// which change places from one order of threads to the next.
void fill_unwritten(void* start, size_t bytes);
void end_flight(const void* address, size_t bytes);
