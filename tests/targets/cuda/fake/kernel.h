// What kernels of the fake GPU are compiled with: each thread of a block is a fiber, and a barrier
// goes over to the next one. Blocks run one after another.
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) alignas(n)
#define uint unsigned int
#define uchar unsigned char
#define ushort unsigned short

struct dim3 {
  unsigned x, y, z;
};
static dim3 threadIdx, blockIdx;
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class T>
static inline T max(T a, T b) { return a > b ? a : b; }
template <class T>
static inline T min(T a, T b) { return a < b ? a : b; }
#define __expf expf
#define __fdividef(a, b) ((a) / (b))

namespace fake {
struct Fiber {
  ucontext_t context;
  dim3 index;
  bool done;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static Fiber* current;
static void (*kernel)(void**);
static void** arguments;

static void body() {
  kernel(arguments);
  current->done = true;
}

template <class... A, size_t... I>
void call(void (*function)(A...), void** values, std::index_sequence<I...>) {
  function(*static_cast<std::remove_reference_t<A>*>(values[I])...);
}
template <class... A>
void call(void (*function)(A...), void** values) {
  call(function, values, std::make_index_sequence<sizeof...(A)>());
}
}  // namespace fake

static inline void __syncthreads() {
  swapcontext(&fake::current->context, &fake::scheduler);
  threadIdx = fake::current->index;
}

extern "C" void fake_run(void (*call)(void**), void** args, const unsigned* grid,
                         const unsigned* block, unsigned) {
  const size_t count = size_t(block[0]) * block[1] * block[2], bytes = 1 << 16;
  std::vector<char> stacks(count * bytes);
  fake::kernel = call;
  fake::arguments = args;
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        fake::fibers.assign(count, {});
        for (size_t i = 0; i < count; ++i) {
          auto& fiber = fake::fibers[i];
          fiber.index = {unsigned(i % block[0]), unsigned(i / block[0] % block[1]),
                         unsigned(i / block[0] / block[1])};
          getcontext(&fiber.context);
          fiber.context.uc_stack.ss_sp = &stacks[i * bytes];
          fiber.context.uc_stack.ss_size = bytes;
          fiber.context.uc_link = &fake::scheduler;
          makecontext(&fiber.context, fake::body, 0);
        }
        for (bool left = true; left;) {
          left = false;
          for (auto& fiber : fake::fibers) {
            if (fiber.done) continue;
            fake::current = &fiber;
            threadIdx = fiber.index;
            swapcontext(&fake::scheduler, &fiber.context);
            left |= !fiber.done;
          }
        }
      }
}
