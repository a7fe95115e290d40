"""Names of tensors that mean something to a compiler, or that no compiler takes."""

from __future__ import annotations

import string

GROUPS = {
    "letters": [*string.ascii_letters],
    "cuda": """
        threadIdx blockIdx blockDim gridDim warpSize half half2 float4 int4 uint uchar4 dim3 clock
        min max abs exp expf sqrtf pow isnan printf assert malloc memcpy make_float4 __half2float
        atomicAdd __shfl_sync __syncthreads __shared__ __global__ __device__ nv_bfloat16 nvcuda
        wmma INFINITY NAN M_PI NULL linux unix main main_kernel A_reindex C_local cse_v1 v_ v_a
        buf_dyn_shmem condval extern addr int8_t size_t cudaError_t
    """.split(),
    "keywords": """
        int float double char bool void short long signed unsigned class struct union enum this
        new delete operator namespace using static const auto register volatile asm inline goto
        switch default typedef sizeof and or not xor true false nullptr try catch throw template
        typename private virtual explicit constexpr decltype alignas restrict __restrict__ concept
    """.split(),
    "odd": [
        *["a b", "a\tb", "a\nb", "ü", "日本", "1x", "a.b", "a-b", "a:b", "a/b", '"q"', "\\", "%s"],
        *["//", "/*", "#x", "a(b)", "_", "__", "ABCD", "aD", "DC", "x" * 300],
    ],
}
