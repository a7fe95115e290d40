// What generated CUDA C++ sees when it is compiled for the CPU. Included before everything else.
//
// Qualifiers of CUDA become nothing, threadIdx and blockIdx are asked of the scheduler, and the
// compiler's thread sanitizer reports each access to memory to it (see scheduler.cpp).
#pragma once
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __CUDA_ARCH__ 900
#define __shared__ EMU_SHARED_MEMORY_WAS_NOT_TRANSLATED
// Threads change memory only where they call the scheduler, which the compiler cannot see into.
#define volatile

struct emu_index {
  unsigned x, y, z;
};

#include "interface.h"
#include "vectors.h"
#include "numbers.h"
#include "functions.h"
#include "warp.h"
#include "ptx.h"
#include "wgmma.h"
