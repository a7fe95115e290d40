// Runs a launch: one block after the other, its threads as fibers.
//
// A thread runs until it meets others: at a barrier, in a collective of its warp, or at its end. In
// which order they run is a parameter of a run; threads that are properly synchronised do not notice.
#include "scheduler.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <sys/mman.h>

Running running;
Arena global_memory, shared_memory;

namespace {

constexpr size_t STACK_BYTES = 1 << 20;

struct Collective {
  uint32_t arrived = 0;
  void* data[32] = {};
};

jmp_buf scheduler_place;
std::vector<Fiber*> fibers;
std::map<std::pair<uint32_t, std::pair<uint32_t, std::string>>, Collective> collectives;

uint32_t lanes_of(uint32_t warp, bool (*wanted)(const Fiber&)) {
  uint32_t mask = 0;
  for (size_t n = warp * 32; n < fibers.size() && n < warp * 32 + 32; ++n)
    if (wanted(*fibers[n])) mask |= 1u << fibers[n]->lane;
  return mask;
}

uint32_t living_lanes(uint32_t warp) {
  return lanes_of(warp, [](const Fiber& one) { return one.state != State::finished; });
}

// Gives the CPU back to the scheduler; returns when this fiber is chosen again.
void pause(State state, const char* waits_for) {
  settle_writes();
  Fiber* own = running.fiber;
  own->state = state;
  own->waits_for = waits_for;
  if (_setjmp(own->place) == 0) _longjmp(scheduler_place, 1);
}

void fiber_main() {
  const Launch& launch = *running.launch;
  launch.call(const_cast<void**>(launch.arguments.data()));
  pause(State::finished, "");
}

void resume(Fiber* fiber) {
  running.fiber = fiber;
  running.checked = true;
  if (_setjmp(scheduler_place) == 0) {
    if (fiber->started) _longjmp(fiber->place, 1);
    fiber->started = true;
    setcontext(&fiber->start);
  }
  running.checked = false;
}

void prepare(size_t threads) {
  while (fibers.size() < threads) {
    Fiber* fiber = new Fiber;
    fiber->stack = map_memory(STACK_BYTES);
    mprotect(fiber->stack, 4096, PROT_NONE);  // so that too large local arrays crash
    fibers.push_back(fiber);
  }
  while (fibers.size() > threads) {
    munmap(fibers.back()->stack, STACK_BYTES);
    delete fibers.back();
    fibers.pop_back();
  }
  const unsigned* b = running.launch->block;
  for (uint32_t n = 0; n < threads; ++n) {
    Fiber* fiber = fibers[n];
    fiber->number = n;
    fiber->thread = {n % b[0], n / b[0] % b[1], n / b[0] / b[1]};
    fiber->warp = n / 32;
    fiber->lane = n % 32;
    fiber->state = State::ready;
    fiber->started = false;
    fiber->open_group.clear();
    fiber->groups.clear();
    fiber->products = WarpgroupProducts();
    fiber->proxy_fences.clear();
    getcontext(&fiber->start);
    fiber->start.uc_stack.ss_sp = fiber->stack;
    fiber->start.uc_stack.ss_size = STACK_BYTES;
    fiber->start.uc_link = nullptr;
    makecontext(&fiber->start, fiber_main, 0);
  }
  running.block_barriers = 0;
  running.warp_barriers.assign((threads + 31) / 32, 0);
  running.warpgroups.assign((threads + 127) / 128, {});
  collectives.clear();
}

void prepare_shared() {
  shared_memory.regions.clear();
  shared_memory.last = nullptr;
  static Place* places = (Place*)map_memory(SHARED_BYTES * sizeof(Place));
  const Launch& launch = *running.launch;
  auto add = [&](const std::string& name, size_t offset, size_t bytes) {
    char* start = shared_memory.start + offset;
    fill_unwritten(start, bytes);
    shared_memory.regions.push_back({name, start, bytes, 1, places + offset});
  };
  for (const emu_variable* one = emu_variables; one->kernel; ++one)
    if (launch.kernel == one->kernel) add(one->name, one->offset, one->bytes);
  if (launch.dynamic_bytes) add("dynamic shared memory", DYNAMIC_OFFSET, launch.dynamic_bytes);
  for (Region& region : shared_memory.regions)
    std::memset((void*)region.places, 0, sizeof(Place) * region.bytes);
}

std::string waiting_text() {
  std::map<std::string, int> counts;
  for (const Fiber* one : fibers)
    ++counts[one->state == State::finished ? "have finished" : std::string("wait at ") + one->waits_for];
  std::string text;
  for (auto& entry : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(entry.second) + " threads " + entry.first;
  return text;
}

// Lets the threads at a barrier go on if no other one can; says whether any could.
bool release_barrier() {
  size_t waiting = 0, finished = 0;
  for (const Fiber* one : fibers) {
    waiting += one->state == State::at_barrier;
    finished += one->state == State::finished;
  }
  if (waiting == 0 || waiting + finished != fibers.size()) return false;
  if (finished) report("barrier", "not all threads reach a barrier: " + waiting_text());
  for (Fiber* one : fibers)
    if (one->state == State::at_barrier) one->state = State::ready;
  ++running.block_barriers;
  return true;
}

// Answers __activemask where all other lanes of the warp wait for something else.
bool answer_active_masks() {
  bool any = false;
  for (uint32_t warp = 0; warp < running.warp_barriers.size(); ++warp) {
    uint32_t mask = lanes_of(warp, [](const Fiber& one) { return one.state == State::at_active_mask; });
    for (size_t n = warp * 32; mask && n < fibers.size() && n < warp * 32 + 32; ++n) {
      if (fibers[n]->state != State::at_active_mask) continue;
      fibers[n]->active_mask = mask;
      fibers[n]->state = State::ready;
      any = true;
    }
  }
  return any;
}

void complete(uint32_t warp, Collective& collective, emu_compute compute) {
  bool checked = running.checked;
  running.checked = false;
  compute(collective.data);
  running.checked = checked;
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (collective.arrived >> lane & 1) fibers[warp * 32 + lane]->state = State::ready;
  collective = Collective();
}

void run_block(std::vector<Fiber*>& turns, std::mt19937_64& random) {
  for (;;) {
    if (running.order > 1) std::shuffle(turns.begin(), turns.end(), random);
    bool progress = false, alive = false;
    for (Fiber* fiber : turns) {
      if (fiber->state == State::ready) {
        resume(fiber);
        progress = true;
      }
    }
    for (Fiber* fiber : turns) alive = alive || fiber->state != State::finished;
    if (!alive) return check_warpgroups(fibers);
    if (progress || release_barrier() || answer_active_masks()) continue;
    report("deadlock", "no thread can go on: " + waiting_text());
    return;
  }
}

}  // namespace

Access access_now() {
  const Fiber* fiber = running.fiber;
  uint32_t number = running.block_number * uint32_t(fibers.size()) + fiber->number + 1;
  return {number, running.block_barriers, uint16_t(running.warp_barriers[fiber->warp] & 0x7fff)};
}

const Fiber& fiber_of(uint32_t thread) { return *fibers[(thread - 1) % fibers.size()]; }

std::string thread_text(uint32_t thread) {
  const unsigned *b = running.launch->block, *g = running.launch->grid;
  uint32_t threads = b[0] * b[1] * b[2], n = (thread - 1) % threads, block = (thread - 1) / threads;
  auto text = [](uint32_t number, const unsigned* e) {
    return "(" + std::to_string(number % e[0]) + ", " + std::to_string(number / e[0] % e[1]) + ", " +
           std::to_string(number / e[0] / e[1]) + ")";
  };
  return "thread " + text(n, b) + " of block " + text(block, g);
}

void run_launch(const Launch& launch, uint64_t seed) {
  running.launch = &launch;
  reset_places(global_memory);
  global_memory.last = nullptr;
  std::mt19937_64 random(seed);
  size_t threads = size_t(launch.block[0]) * launch.block[1] * launch.block[2];
  std::vector<uint32_t> blocks(size_t(launch.grid[0]) * launch.grid[1] * launch.grid[2]);
  for (uint32_t n = 0; n < blocks.size(); ++n) blocks[n] = n;
  if (running.order == 1) std::reverse(blocks.begin(), blocks.end());
  if (running.order > 1) std::shuffle(blocks.begin(), blocks.end(), random);
  for (uint32_t block : blocks) {
    const unsigned* g = launch.grid;
    running.block = {block % g[0], block / g[0] % g[1], block / g[0] / g[1]};
    running.block_number = block;
    prepare(threads);
    prepare_shared();
    std::vector<Fiber*> turns = fibers;
    if (running.order == 1) std::reverse(turns.begin(), turns.end());
    run_block(turns, random);
  }
}

extern "C" {

emu_index emu_thread_index() { return running.fiber->thread; }
emu_index emu_block_index() { return running.block; }
emu_index emu_block_size() {
  const unsigned* b = running.launch->block;
  return {b[0], b[1], b[2]};
}
emu_index emu_grid_size() {
  const unsigned* g = running.launch->grid;
  return {g[0], g[1], g[2]};
}
void* emu_static_shared(size_t offset) { return shared_memory.start + offset; }
void* emu_dynamic_shared() { return shared_memory.start + DYNAMIC_OFFSET; }
uint32_t emu_shared_address(const void* pointer) {
  if (!shared_memory.holds(pointer))
    fail("out_of_bounds", thread_text(access_now().thread) +
                              " takes an address for shared memory that does not lie there");
  return uint32_t((char*)pointer - shared_memory.start);
}
void* emu_shared_pointer(uint32_t address) { return shared_memory.start + address; }
int emu_lane() { return int(running.fiber->lane); }

void emu_sync_block() { pause(State::at_barrier, "__syncthreads"); }

void emu_sync_warp(uint32_t mask) {
  char nothing;
  emu_collective("__syncwarp", mask, false, &nothing,
                 [](void**) { ++running.warp_barriers[running.fiber->warp]; });
}

uint32_t emu_active_mask() {
  pause(State::at_active_mask, "__activemask");
  return running.fiber->active_mask;
}

void emu_collective(const char* name, uint32_t mask, bool whole, void* data, emu_compute compute) {
  Fiber* own = running.fiber;
  settle_writes();
  uint32_t wanted = whole ? mask : mask & living_lanes(own->warp);
  if (!(mask >> own->lane & 1))
    fail("deadlock", thread_text(access_now().thread) + " is not in the mask of its " + name);
  Collective& collective = collectives[{own->warp, {mask, name}}];
  collective.arrived |= 1u << own->lane;
  collective.data[own->lane] = data;
  if ((collective.arrived & wanted) == wanted) {
    complete(own->warp, collective, compute);
    return;
  }
  pause(State::in_collective, name);
}

void emu_async_copy(uint32_t shared, const void* source, size_t bytes, size_t source_bytes) {
  void* to = emu_shared_pointer(shared);
  if (shared % bytes || (uintptr_t)source % bytes)
    fail("misaligned", thread_text(access_now().thread) + " copies " + std::to_string(bytes) +
                           " bytes with cp.async, from or to an address that is no multiple of it");
  if (source_bytes && global_memory.holds(source))
    check_access(global_memory, source, source_bytes, Kind::read);
  start_flight(to, bytes);
  running.fiber->open_group.push_back({to, source, bytes, source_bytes});
}

void emu_async_commit() {
  Fiber* own = running.fiber;
  own->groups.push_back(std::move(own->open_group));
  own->open_group.clear();
}

void emu_async_wait(size_t pending_groups) {
  Fiber* own = running.fiber;
  while (own->groups.size() > pending_groups) {
    for (const AsyncCopy& copy : own->groups.front()) {
      std::memset(copy.to, 0, copy.bytes);
      std::memcpy(copy.to, copy.from, copy.source_bytes);
      end_flight(copy.to, copy.bytes);
    }
    own->groups.erase(own->groups.begin());
  }
}

}  // extern "C"
