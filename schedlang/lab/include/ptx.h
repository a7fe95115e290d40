// The PTX instructions that ptx.py translates: copies, and products of small matrices.
//
// Which element of a matrix lies where (PTX ISA, "Matrix Fragments for mma.sync" and "ldmatrix").
// A register has 32 bits: p = 32 / bits of an element of them. Lane l is number t = l % 4 in group
// g = l / 4.
//
//   operand                register r, element s          row                column
//   A (m16 x k, row)       r = 0 .. k / (4p) * 2 - 1      g + 8 * (r % 2)    t * p + s + 4p * (r / 2)
//   A (m8 x k, row)        r = 0                          g                  t * p + s
//   B (k x n8, col)        r = 0 .. k / (4p) - 1          t * p + s + 4p * r g
//   C, D (m x n8, 32 bits) r = 0 .. m / 4 - 1             g + 8 * (r / 2)    t * 2 + r % 2
//   C, D (m x n8, f16)     r = 0 .. m / 8 - 1             g + 8 * r          t * 2 + s
//
//   ldmatrix: matrix j of x1, x2, x4 has its row i at the address that lane 8 * j + i gives; a row is
//   8 elements of 16 bits. Register j of lane l gets the elements 2t and 2t + 1 of row g; with .trans
//   the elements g of the rows 2t and 2t + 1.
#pragma once

inline size_t __cvta_generic_to_shared(const void* pointer) { return emu_shared_address(pointer); }

// Values that an operand of inline assembly holds, as 32 bits.
template <class T>
inline uint32_t emu_bits(T value) {
  static_assert(sizeof(T) == 4, "operands have 32 bits");
  return emu_bit_cast<uint32_t>(value);
}
template <class T>
inline void emu_put(T& place, uint32_t bits) {
  place = emu_bit_cast<T>(bits);
}

struct emu_matrix_load {
  uint32_t address, registers[4];
};

template <int count, bool transposed>
inline void emu_ldmatrix(uint32_t* registers, uint32_t address) {
  emu_matrix_load own = {address, {}};
  int lane = emu_lane();
  if (lane < 8 * count) emu_read(emu_shared_pointer(address), 16);
  emu_collective("ldmatrix", 0xffffffffu, true, &own, [](void** data) {
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, t = lane % 4;
      for (int j = 0; j < count; ++j) {
        uint16_t pair[2];
        for (int s = 0; s < 2; ++s) {
          int row = transposed ? 2 * t + s : g, column = transposed ? g : 2 * t + s;
          uint32_t start = ((emu_matrix_load*)data[8 * j + row])->address;
          std::memcpy(&pair[s], (uint16_t*)emu_shared_pointer(start) + column, 2);
        }
        ((emu_matrix_load*)data[lane])->registers[j] = pair[0] | uint32_t(pair[1]) << 16;
      }
    }
  });
  for (int j = 0; j < count; ++j) registers[j] = own.registers[j];
}

// Element types of PTX: what they hold, and what sums are kept in.
struct emu_f16 { typedef half type; typedef float sum; };
struct emu_bf16 { typedef nv_bfloat16 type; typedef float sum; };
struct emu_f32 { typedef float type; typedef float sum; };
struct emu_s8 { typedef int8_t type; typedef int sum; };
struct emu_u8 { typedef uint8_t type; typedef int sum; };
struct emu_s32 { typedef int type; typedef int sum; };

struct emu_product {
  const uint32_t *a, *b, *c;
  uint32_t* d;
};

template <class Type>
inline typename Type::type emu_element(uint32_t bits, int s) {
  typename Type::type value;
  std::memcpy((void*)&value, (char*)&bits + s * sizeof value, sizeof value);
  return value;
}

// D = A * B + C of one warp, as the table above lays them out.
template <int m, int k, class D, class A, class B, class C>
inline void emu_mma(uint32_t* d, const uint32_t* a, const uint32_t* b, const uint32_t* c) {
  emu_product own = {a, b, c, d};
  emu_collective("mma.sync", 0xffffffffu, true, &own, [](void** data) {
    constexpr int n = 8, p = 4 / sizeof(typename A::type), pairs = k / (4 * p), halves = m / 8;
    constexpr int pc = 4 / sizeof(typename C::type);
    typedef typename C::sum Sum;
    static Sum A_[m][k], B_[k][n], C_[m][n];
    for (int lane = 0; lane < 32; ++lane) {
      emu_product* one = (emu_product*)data[lane];
      int g = lane / 4, t = lane % 4;
      for (int r = 0; r < pairs * halves; ++r)
        for (int s = 0; s < p; ++s)
          A_[g + 8 * (r % halves)][t * p + s + 4 * p * (r / halves)] =
              Sum(emu_element<A>(one->a[r], s));
      for (int r = 0; r < pairs; ++r)
        for (int s = 0; s < p; ++s)
          B_[t * p + s + 4 * p * r][g] = Sum(emu_element<B>(one->b[r], s));
      for (int e = 0; e < 2 * halves; ++e)
        C_[g + 8 * (e / 2)][t * 2 + e % 2] = Sum(emu_element<C>(one->c[e / pc], e % pc));
    }
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int l = 0; l < k; ++l) C_[i][j] += A_[i][l] * B_[l][j];
    for (int lane = 0; lane < 32; ++lane) {
      emu_product* one = (emu_product*)data[lane];
      int g = lane / 4, t = lane % 4;
      for (int e = 0; e < 2 * halves; ++e) {
        typename D::type value = (typename D::type)(C_[g + 8 * (e / 2)][t * 2 + e % 2]);
        std::memcpy((char*)one->d + e * sizeof value, (void*)&value, sizeof value);
      }
    }
  });
}

// A copy that happens only if `wanted`; else it writes zeros, at once.
inline void emu_async_copy_if(bool wanted, uint32_t shared, const void* source, size_t bytes) {
  if (wanted) return emu_async_copy(shared, source, bytes, bytes);
  void* place = emu_shared_pointer(shared);
  emu_write(place, bytes);
  std::memset(place, 0, bytes);
}
