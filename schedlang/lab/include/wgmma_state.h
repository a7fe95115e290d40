// What a thread has under way of its warpgroup's products.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

struct IssuedProduct {
  emu_warpgroup_product product;
  std::vector<float*> registers;
};

struct WarpgroupProducts {
  size_t issued = 0;
  bool fenced = false;  // since the last wait
  std::vector<IssuedProduct> open;
  std::vector<std::vector<IssuedProduct>> groups;
  // By the first register: sums that are under way, and what the last wait left.
  std::map<float*, std::vector<float>> sums, left;

  bool uses(float* first) const {
    auto of = [&](const std::vector<IssuedProduct>& group) {
      for (const IssuedProduct& one : group)
        if (one.registers[0] == first) return true;
      return false;
    };
    for (auto& group : groups)
      if (of(group)) return true;
    return of(open);
  }
};
