// What the scheduler offers to kernels, and what it finds in a compiled source.
#pragma once
#include <cstddef>
#include <cstdint>

typedef void (*emu_call)(void** arguments);

struct emu_kernel {
  const char* name;
  emu_call call;
};

// A variable in static shared memory: where it starts, and its size in bytes.
struct emu_variable {
  const char* kernel;
  const char* name;
  size_t offset, bytes;
};

extern "C" {
// Written into each source by source.py; both lists end with a null name.
extern const emu_kernel emu_kernels[];
extern const emu_variable emu_variables[];

__attribute__((const)) emu_index emu_thread_index();
__attribute__((const)) emu_index emu_block_index();
__attribute__((const)) emu_index emu_block_size();
__attribute__((const)) emu_index emu_grid_size();
__attribute__((const)) void* emu_static_shared(size_t offset);
__attribute__((const)) void* emu_dynamic_shared();
// Shared memory as PTX addresses it: 32 bits.
uint32_t emu_shared_address(const void* pointer);
void* emu_shared_pointer(uint32_t address);

void emu_sync_block();
void emu_sync_warp(uint32_t mask);
uint32_t emu_active_mask();
int emu_lane();

// All lanes of `mask` come here with data of their own; the last one computes for all. `data` has
// an entry for each of the 32 lanes, null for a lane that does not take part. `name` tells
// collectives apart. `whole` ones need all 32 lanes.
typedef void (*emu_compute)(void** data);
void emu_collective(const char* name, uint32_t mask, bool whole, void* data, emu_compute compute);

// Checks an access as those that the compiler reports.
void emu_read(const void* address, size_t bytes);
void emu_write(void* address, size_t bytes);
// Checks an access that is atomic: those never race with each other.
void emu_atomic(void* address, size_t bytes);
// Copies without a check.
void emu_copy(void* to, const void* from, size_t bytes);
[[noreturn]] void emu_misaligned(const void* address, size_t bytes);

// One wgmma: descriptors of A and B, columns of the result, a factor, whether it adds to the result,
// whether terms lie across rows (MN-major), and how to read an element. See wgmma.cpp.
struct emu_warpgroup_product {
  uint64_t left, right;
  int columns;
  float scale;
  bool add, left_by_terms, right_by_terms;
  float (*element)(const void* address);
};
void emu_wgmma_issue(const emu_warpgroup_product* product, float** registers);
void emu_wgmma_fence();
void emu_wgmma_commit();
void emu_wgmma_wait(size_t pending_groups);
// fence.proxy.async: what the thread wrote may be read by tensor cores after the next barrier.
void emu_proxy_fence();

void emu_async_copy(uint32_t shared, const void* source, size_t bytes, size_t source_bytes);
void emu_async_commit();
void emu_async_wait(size_t pending_groups);
}

#define threadIdx (emu_thread_index())
#define blockIdx (emu_block_index())
#define blockDim (emu_block_size())
#define gridDim (emu_grid_size())
#define warpSize 32
