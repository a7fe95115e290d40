// wmma: fragments, spread over the lanes of a warp in a way of our own, as CUDA leaves that open.
#pragma once
#include <type_traits>

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k>
struct emu_shape;
template <int m, int n, int k>
struct emu_shape<matrix_a, m, n, k> { static constexpr int rows = m, columns = k; };
template <int m, int n, int k>
struct emu_shape<matrix_b, m, n, k> { static constexpr int rows = k, columns = n; };
template <int m, int n, int k>
struct emu_shape<accumulator, m, n, k> { static constexpr int rows = m, columns = n; };

// Element (i, j) is number i * columns + j; lane l holds the numbers l, l + 32, l + 64, ...
template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static_assert((m == 16 && n == 16 && k == 16) || (m == 32 && n == 8 && k == 16) ||
                    (m == 8 && n == 32 && k == 16),
                "wmma has the shapes 16x16x16, 32x8x16 and 8x32x16");
  static constexpr int rows = emu_shape<Use, m, n, k>::rows;
  static constexpr int columns = emu_shape<Use, m, n, k>::columns;
  static constexpr int num_elements = rows * columns / 32;
  typedef T element_type;
  T x[num_elements];
};

inline void emu_together(const char* name) {
  emu_collective(name, 0xffffffffu, true, (void*)name, [](void**) {});
}

template <class Fragment, class Value>
inline void fill_fragment(Fragment& to, Value value) {
  emu_together("wmma::fill_fragment");
  for (auto& element : to.x) element = typename Fragment::element_type(value);
}

template <class Fragment>
inline size_t emu_offset(int element, unsigned stride, bool by_rows) {
  size_t number = size_t(element) * 32 + emu_lane();
  size_t row = number / Fragment::columns, column = number % Fragment::columns;
  return by_rows ? row * stride + column : column * stride + row;
}

template <class Fragment>
inline void emu_load(Fragment& to, const typename Fragment::element_type* from, unsigned stride,
                     bool by_rows) {
  emu_together("wmma::load_matrix_sync");
  for (int e = 0; e < Fragment::num_elements; ++e) {
    auto* place = from + emu_offset<Fragment>(e, stride, by_rows);
    emu_read(place, sizeof *place);
    emu_copy(&to.x[e], place, sizeof *place);
  }
  emu_together("wmma::load_matrix_sync");
}

template <class Use, int m, int n, int k, class T, class Layout>
inline void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& to, const T* from, unsigned stride) {
  emu_load(to, from, stride, std::is_same<Layout, row_major>::value);
}
template <int m, int n, int k, class T>
inline void load_matrix_sync(fragment<accumulator, m, n, k, T>& to, const T* from, unsigned stride,
                             layout_t layout) {
  emu_load(to, from, stride, layout == mem_row_major);
}

template <int m, int n, int k, class T>
inline void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& from, unsigned stride,
                              layout_t layout) {
  typedef fragment<accumulator, m, n, k, T> Fragment;
  emu_together("wmma::store_matrix_sync");
  for (int e = 0; e < Fragment::num_elements; ++e) {
    T* place = to + emu_offset<Fragment>(e, stride, layout == mem_row_major);
    emu_write(place, sizeof *place);
    emu_copy(place, &from.x[e], sizeof *place);
  }
  emu_together("wmma::store_matrix_sync");
}

template <class T, class A, class B, class C>
struct emu_operands {
  T* d;
  const A* a;
  const B* b;
  const C* c;
};

template <int m, int n, int k, class D, class T, class LayoutA, class LayoutB, class C>
inline void mma_sync(fragment<accumulator, m, n, k, D>& d,
                     const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                     const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                     const fragment<accumulator, m, n, k, C>& c) {
  typedef emu_operands<D, T, T, C> Operands;
  // Sums of 16-bit numbers are kept in float, and rounded where D holds fewer digits.
  typedef typename std::conditional<std::is_integral<D>::value, int, float>::type Sum;
  Operands own = {d.x, a.x, b.x, c.x};
  emu_collective("wmma::mma_sync", 0xffffffffu, true, &own, [](void** data) {
    static Sum A[m * k], B[k * n], S[m * n];
    for (int e = 0; e < m * k; ++e) A[e] = Sum(((Operands*)data[e % 32])->a[e / 32]);
    for (int e = 0; e < k * n; ++e) B[e] = Sum(((Operands*)data[e % 32])->b[e / 32]);
    for (int e = 0; e < m * n; ++e) S[e] = Sum(((Operands*)data[e % 32])->c[e / 32]);
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l)
        for (int j = 0; j < n; ++j) S[i * n + j] += A[i * k + l] * B[l * n + j];
    for (int e = 0; e < m * n; ++e) ((Operands*)data[e % 32])->d[e / 32] = D(S[e]);
  });
}

}  // namespace wmma
}  // namespace nvcuda
