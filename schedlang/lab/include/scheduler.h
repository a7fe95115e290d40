// The threads of a block: fibers that run one at a time, and change at barriers only.
#pragma once
#include <csetjmp>
#include <cstdint>
#include <string>
#include <ucontext.h>
#include <vector>

#include "memory.h"

struct emu_index {
  unsigned x, y, z;
};
#include "interface.h"
#include "wgmma_state.h"

enum class State { ready, at_barrier, in_collective, at_active_mask, finished };

struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes, source_bytes;
};

struct Fiber {
  ucontext_t start;
  jmp_buf place;
  char* stack = nullptr;
  bool started = false;
  State state = State::finished;
  emu_index thread = {0, 0, 0};
  uint32_t number = 0, warp = 0, lane = 0;  // within the block
  const char* waits_for = "";
  uint32_t active_mask = 0;
  std::vector<AsyncCopy> open_group;
  std::vector<std::vector<AsyncCopy>> groups;
  WarpgroupProducts products;
  std::vector<uint16_t> proxy_fences;  // for each, the barriers that its block had passed
};

struct Launch {
  std::string kernel;
  emu_call call = nullptr;
  unsigned grid[3], block[3];
  size_t dynamic_bytes = 0;
  std::vector<void*> arguments;
};

// What runs now.
struct Running {
  const Launch* launch = nullptr;
  emu_index block = {0, 0, 0};
  uint32_t block_number = 0;
  uint16_t block_barriers = 0;
  std::vector<uint16_t> warp_barriers;
  std::vector<std::vector<emu_warpgroup_product>> warpgroups;
  Fiber* fiber = nullptr;
  bool checked = false;
  bool atomics = false;
  int order = 0;
};
extern Running running;
extern Arena global_memory, shared_memory;

Access access_now();
const Fiber& fiber_of(uint32_t thread);
std::string thread_text(uint32_t thread);

// Writes one fault; fatal ones end the process after it.
void report(const char* kind, const std::string& message);
[[noreturn]] void fail(const char* kind, const std::string& message);

// Reports warpgroups whose threads did not all take part in a product.
void check_warpgroups(const std::vector<Fiber*>& fibers);

void run_launch(const Launch& launch, uint64_t seed);

// The lowest 18 bits are those of an address on a GPU, behind 48 KB of static variables.
constexpr size_t DYNAMIC_OFFSET = (1 << 20) + (48 << 10);
constexpr size_t SHARED_BYTES = 3 << 20;
constexpr size_t GUARD_BYTES = 4096;
