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
  Fiber* fiber = nullptr;
  bool checked = false;
  bool atomics = false;
  int order = 0;
};
extern Running running;
extern Arena global_memory, shared_memory;

Access access_now();
std::string thread_text(uint32_t thread);

// Writes one fault; fatal ones end the process after it.
void report(const char* kind, const std::string& message);
[[noreturn]] void fail(const char* kind, const std::string& message);

void run_launch(const Launch& launch, uint64_t seed);

constexpr size_t DYNAMIC_OFFSET = 1 << 20;
constexpr size_t SHARED_BYTES = 2 << 20;
constexpr size_t GUARD_BYTES = 4096;
