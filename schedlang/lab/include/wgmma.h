// wgmma: products of 64 x n elements by the 128 threads of a warpgroup. See wgmma.cpp.
#pragma once

template <class Type>
inline float emu_element_at(const void* address) {
  typename Type::type value;
  std::memcpy((void*)&value, address, sizeof value);
  return float(value);
}

template <class Type>
inline void emu_wgmma(float** registers, int columns, uint64_t left, uint64_t right, bool add,
                      int scale_left, int scale_right, bool left_by_terms, bool right_by_terms) {
  emu_warpgroup_product product = {left,  right,          columns,       float(scale_left * scale_right),
                                   add,   left_by_terms,  right_by_terms, emu_element_at<Type>};
  emu_wgmma_issue(&product, registers);
}
