// CUDA's functions on numbers that the host's C library lacks, and atomics.
#pragma once

using std::isfinite;
using std::isinf;
using std::isnan;

inline float max(float a, float b) { return std::fmax(a, b); }
inline float min(float a, float b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
template <class A, class B, class = typename std::enable_if<
                                std::is_integral<A>::value && std::is_integral<B>::value>::type>
inline typename std::common_type<A, B>::type max(A a, B b) {
  typedef typename std::common_type<A, B>::type C;
  return C(a) > C(b) ? C(a) : C(b);
}
template <class A, class B, class = typename std::enable_if<
                                std::is_integral<A>::value && std::is_integral<B>::value>::type>
inline typename std::common_type<A, B>::type min(A a, B b) {
  typedef typename std::common_type<A, B>::type C;
  return C(a) < C(b) ? C(a) : C(b);
}

inline float emu_rsqrt(float a) { return 1.0f / std::sqrt(a); }
inline double emu_rsqrt(double a) { return 1.0 / std::sqrt(a); }
inline float emu_exp10(float a) { return std::pow(10.0f, a); }
inline double emu_exp10(double a) { return std::pow(10.0, a); }
#define rsqrtf(a) emu_rsqrt(float(a))
#define rsqrt(a) emu_rsqrt(double(a))
#define exp10f(a) emu_exp10(float(a))
#define exp10(a) emu_exp10(double(a))
// The fast variants are as exact as the others here.
#define __expf(a) std::exp(float(a))
#define __exp10f(a) emu_exp10(float(a))
#define __logf(a) std::log(float(a))
#define __log2f(a) std::log2(float(a))
#define __log10f(a) std::log10(float(a))
#define __sinf(a) std::sin(float(a))
#define __cosf(a) std::cos(float(a))
#define __tanf(a) std::tan(float(a))
#define __tanhf(a) std::tanh(float(a))
#define __powf(a, b) std::pow(float(a), float(b))
#define __fdividef(a, b) (float(a) / float(b))

inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz(unsigned(a)) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll((unsigned long long)a) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }

template <class To, class From>
inline To emu_bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "both have one size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int a) { return emu_bit_cast<float>(a); }
inline int __float_as_int(float a) { return emu_bit_cast<int>(a); }
inline float __uint_as_float(unsigned a) { return emu_bit_cast<float>(a); }
inline unsigned __float_as_uint(float a) { return emu_bit_cast<unsigned>(a); }

// The cast in *(float4*)(pointer): vectors lie at multiples of their alignment.
template <class T>
inline T* emu_vector(const void* pointer) {
  if ((uintptr_t)pointer % alignof(T)) emu_misaligned(pointer, sizeof(T));
  return (T*)pointer;
}
template <class T>
inline T __ldg(const T* pointer) {
  return *pointer;
}

// Four products of bytes, added up.
template <class A, class B>
inline int emu_dp4a(const A* a, const B* b, int c) {
  for (int i = 0; i < 4; ++i) c += int(a[i]) * int(b[i]);
  return c;
}
inline int __dp4a(int a, int b, int c) { return emu_dp4a((int8_t*)&a, (int8_t*)&b, c); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return emu_dp4a((uint8_t*)&a, (uint8_t*)&b, int(c));
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Threads run one at a time, so plain arithmetic is atomic.
template <class T, class Change>
inline T emu_change(T* address, Change change) {
  emu_atomic(address, sizeof(T));
  T old;
  emu_copy(&old, address, sizeof old);
  T changed = change(old);
  emu_copy(address, &changed, sizeof changed);
  return old;
}
template <class T>
inline T atomicAdd(T* address, T value) {
  return emu_change(address, [&](T old) { return T(old + value); });
}
template <class T>
inline T atomicMax(T* address, T value) {
  return emu_change(address, [&](T old) { return old < value ? value : old; });
}
template <class T>
inline T atomicMin(T* address, T value) {
  return emu_change(address, [&](T old) { return value < old ? value : old; });
}
template <class T>
inline T atomicExch(T* address, T value) {
  return emu_change(address, [&](T) { return value; });
}
template <class T>
inline T atomicCAS(T* address, T expected, T value) {
  return emu_change(address, [&](T old) { return old == expected ? value : old; });
}
