// half and bfloat16: stored in 16 bits, computed in float and rounded once, to nearest even.
//
// One operation in float and rounding its result gives what an operation in 16 bits gives: float
// has more than twice the digits. A fused multiply-add rounds twice here, in rare cases to a
// neighbour.
#pragma once

// Digits behind the point, and the exponent's bias.
struct emu_half_format {
  static constexpr int digits = 10, bias = 15;
};
struct emu_bfloat16_format {
  static constexpr int digits = 7, bias = 127;
};

template <class Format>
inline float emu_widen(uint16_t bits) {
  constexpr int digits = Format::digits;
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff, wide;
  if (Format::bias == 127) {
    wide = rest << (23 - digits);
  } else if (rest >= (0x1fu << digits)) {
    wide = 0x7f800000u | (rest << (23 - digits));
  } else if (rest >= (1u << digits)) {
    wide = (rest << (23 - digits)) + ((127u - Format::bias) << 23);
  } else {
    float small = float(rest) * 0x1p-24f;
    std::memcpy(&wide, &small, 4);
  }
  wide |= sign;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

template <class Format>
inline uint16_t emu_narrow(float value) {
  constexpr int dropped = 23 - Format::digits;
  uint32_t wide;
  std::memcpy(&wide, &value, 4);
  uint32_t sign = (wide >> 16) & 0x8000;
  wide &= 0x7fffffffu;
  if (wide > 0x7f800000u) return uint16_t(sign | 0x7fff);
  if (Format::bias != 127) {
    if (wide < 0x38800000u) {  // below the smallest normal number: units of 2^-24
      float size;
      std::memcpy(&size, &wide, 4);
      return uint16_t(sign | uint32_t(std::nearbyintf(size * 0x1p24f)));
    }
    if (wide >= 0x47800000u) return uint16_t(sign | 0x7c00);
    wide -= (127u - Format::bias) << 23;
  }
  wide += (1u << (dropped - 1)) - 1 + ((wide >> dropped) & 1);
  return uint16_t(sign | (wide >> dropped));
}

template <class Format>
struct alignas(2) emu_number {
  uint16_t __x;
  emu_number() = default;
  template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  emu_number(T value) : __x(emu_narrow<Format>(float(value))) {}
  template <class Other>
  explicit emu_number(emu_number<Other> value) : emu_number(float(value)) {}
  operator float() const { return emu_widen<Format>(__x); }

#define EMU_OPERATOR(op)                                                                 \
  friend emu_number operator op(emu_number a, emu_number b) { return float(a) op float(b); } \
  emu_number& operator op##=(emu_number b) { return *this = *this op b; }
  EMU_OPERATOR(+)
  EMU_OPERATOR(-)
  EMU_OPERATOR(*)
  EMU_OPERATOR(/)
#undef EMU_OPERATOR
#define EMU_COMPARISON(op) \
  friend bool operator op(emu_number a, emu_number b) { return float(a) op float(b); }
  EMU_COMPARISON(==)
  EMU_COMPARISON(!=)
  EMU_COMPARISON(<)
  EMU_COMPARISON(<=)
  EMU_COMPARISON(>)
  EMU_COMPARISON(>=)
#undef EMU_COMPARISON
  friend emu_number operator-(emu_number a) {
    a.__x ^= 0x8000;
    return a;
  }
  friend emu_number operator+(emu_number a) { return a; }
};

typedef emu_number<emu_half_format> __half;
typedef emu_number<emu_bfloat16_format> __nv_bfloat16;
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;

template <class T>
struct alignas(4) emu_pair {
  T x, y;
  emu_pair() = default;
  emu_pair(T x, T y) : x(x), y(y) {}
};
typedef emu_pair<half> __half2;
typedef emu_pair<nv_bfloat16> __nv_bfloat162;
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;

inline half2 make_half2(half x, half y) { return {x, y}; }
inline half2 __half2half2(half a) { return {a, a}; }
inline nv_bfloat162 __bfloat162bfloat162(nv_bfloat16 a) { return {a, a}; }
inline half2 __halves2half2(half a, half b) { return {a, b}; }

inline float __half2float(half a) { return a; }
inline half __float2half(float a) { return a; }
inline half __float2half_rn(float a) { return a; }
inline half __double2half(double a) { return float(a); }
inline float __bfloat162float(nv_bfloat16 a) { return a; }
inline nv_bfloat16 __float2bfloat16(float a) { return a; }
inline nv_bfloat16 __float2bfloat16_rn(float a) { return a; }
inline half __ushort_as_half(unsigned short bits) { half a; a.__x = bits; return a; }
inline unsigned short __half_as_ushort(half a) { return a.__x; }
inline nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { nv_bfloat16 a; a.__x = bits; return a; }
inline unsigned short __bfloat16_as_ushort(nv_bfloat16 a) { return a.__x; }

#define EMU_BINARY(name, op)                                                                   \
  inline half name(half a, half b) { return a op b; }                                          \
  inline nv_bfloat16 name(nv_bfloat16 a, nv_bfloat16 b) { return a op b; }                     \
  inline half2 name##2(half2 a, half2 b) { return {a.x op b.x, a.y op b.y}; }                  \
  inline nv_bfloat162 name##2(nv_bfloat162 a, nv_bfloat162 b) { return {a.x op b.x, a.y op b.y}; }
EMU_BINARY(__hadd, +)
EMU_BINARY(__hsub, -)
EMU_BINARY(__hmul, *)
EMU_BINARY(__hdiv, /)
#undef EMU_BINARY

#define EMU_COMPARE(name, op)                              \
  inline bool name(half a, half b) { return a op b; }      \
  inline bool name(nv_bfloat16 a, nv_bfloat16 b) { return a op b; }
EMU_COMPARE(__heq, ==)
EMU_COMPARE(__hne, !=)
EMU_COMPARE(__hlt, <)
EMU_COMPARE(__hle, <=)
EMU_COMPARE(__hgt, >)
EMU_COMPARE(__hge, >=)
#undef EMU_COMPARE

// As functions of one number; TVM's preamble defines htanh, htan, hatan, herf and hpow.
#define EMU_UNARY(name, function)                              \
  inline half name(half a) { return function(float(a)); }      \
  inline nv_bfloat16 name(nv_bfloat16 a) { return function(float(a)); }
EMU_UNARY(__habs, std::fabs)
EMU_UNARY(hexp, std::exp)
EMU_UNARY(hexp2, std::exp2)
EMU_UNARY(hlog, std::log)
EMU_UNARY(hlog2, std::log2)
EMU_UNARY(hlog10, std::log10)
EMU_UNARY(hsin, std::sin)
EMU_UNARY(hcos, std::cos)
EMU_UNARY(hsqrt, std::sqrt)
EMU_UNARY(hrsqrt, 1.0f / std::sqrt)
EMU_UNARY(hrcp, 1.0f /)
EMU_UNARY(hceil, std::ceil)
EMU_UNARY(hfloor, std::floor)
EMU_UNARY(htrunc, std::trunc)
EMU_UNARY(hrint, std::nearbyint)
#undef EMU_UNARY
inline half hexp10(half a) { return std::pow(10.0f, float(a)); }
inline nv_bfloat16 hexp10(nv_bfloat16 a) { return std::pow(10.0f, float(a)); }
inline half __hneg(half a) { return -a; }
inline half __hfma(half a, half b, half c) { return std::fma(float(a), float(b), float(c)); }
inline nv_bfloat16 __hfma(nv_bfloat16 a, nv_bfloat16 b, nv_bfloat16 c) {
  return std::fma(float(a), float(b), float(c));
}
inline half2 __hfma2(half2 a, half2 b, half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline bool __hisnan(half a) { return std::isnan(float(a)); }
inline bool __hisnan(nv_bfloat16 a) { return std::isnan(float(a)); }
inline half __hmax(half a, half b) { return std::fmax(float(a), float(b)); }
inline half __hmin(half a, half b) { return std::fmin(float(a), float(b)); }
inline nv_bfloat16 __hmax(nv_bfloat16 a, nv_bfloat16 b) { return std::fmax(float(a), float(b)); }
inline nv_bfloat16 __hmin(nv_bfloat16 a, nv_bfloat16 b) { return std::fmin(float(a), float(b)); }
