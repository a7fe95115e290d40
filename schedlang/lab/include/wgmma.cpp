// Products of warpgroups: 128 threads multiply matrices in shared memory, each for its own registers.
//
// A product is carried out by the wait for its group, thread by thread: until then its registers hold
// garbage, and other threads may still change what it reads. Tensor cores read through the
// asynchronous proxy: what a thread wrote needs that thread's fence.proxy.async, and then a barrier.
//
// PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": thread t of the
// warpgroup has the elements (16 * (t / 32) + t % 32 / 4 + 8 * h, 8 * c + 2 * (t % 4) + p) of a
// result in its register 4 * c + 2 * h + p. A descriptor has addresses in units of 16 bytes: where
// the matrix starts (bits 0-13), distances "leading" (16-29) and "stride" (32-45), and the layout
// (62-63). Rows of a layout have w bytes, and 8 of them lie together; part p of 16 bytes of a row is
// number p xor (address / 128 % (w / 16)). CUTLASS, make_gmma_desc, has the meaning of distances.
#include <limits>

#include "scheduler.h"

namespace {

constexpr uint32_t WARPGROUP = 128;
constexpr int TERMS = 16;
// Descriptors hold 18 bits of an address: static variables first, then dynamic memory.
constexpr uint32_t ADDRESSES = 1 << 18, DYNAMIC_ADDRESS = DYNAMIC_OFFSET % ADDRESSES;

struct Matrix {
  uint32_t start, leading, stride, width;
  bool swizzled, by_terms;
};

Matrix decode(uint64_t descriptor, bool by_terms) {
  constexpr uint32_t WIDTHS[] = {16, 128, 64, 32};
  auto field = [&](int bit) { return uint32_t(descriptor >> bit & 0x3fff) * 16; };
  uint32_t layout = uint32_t(descriptor >> 62);
  if (descriptor >> 49 & 7)
    fail("wgmma", "a matrix descriptor has a base offset, which the emulator does not know");
  return {field(0), field(16), field(32), WIDTHS[layout], layout != 0, by_terms};
}

// The address of an element: of row or column `line`, and of the sum's term `term`.
const void* address_of(const Matrix& matrix, uint32_t line, uint32_t term) {
  uint32_t along = matrix.by_terms ? line : term, across = matrix.by_terms ? term : line;
  uint32_t in_row = matrix.width / 2, column = along / in_row;
  uint32_t address = matrix.start + along % in_row * 2 + across % 8 * matrix.width;
  // Without a swizzle, "stride" and "leading" change their meaning with the order.
  bool exchanged = matrix.by_terms && !matrix.swizzled;
  address += across / 8 * (exchanged ? matrix.leading : matrix.stride);
  address += column * (exchanged ? matrix.stride : matrix.leading);
  address ^= address / 128 % (matrix.width / 16) * 16;
  uint32_t dynamic = (address - DYNAMIC_ADDRESS) % ADDRESSES;
  bool is_dynamic = dynamic < running.launch->dynamic_bytes;
  return shared_memory.start + (is_dynamic ? DYNAMIC_OFFSET + dynamic : address % ADDRESSES);
}

float read(const Matrix& matrix, const emu_warpgroup_product& product, uint32_t line, uint32_t term) {
  const void* address = address_of(matrix, line, term);
  check_access(shared_memory, address, 2, Kind::asynchronous_read);
  return product.element(address);
}

void multiply(const emu_warpgroup_product& product, float* sums) {
  const Fiber* own = running.fiber;
  uint32_t thread = own->number % WARPGROUP, columns = uint32_t(product.columns);
  Matrix left = decode(product.left, product.left_by_terms);
  Matrix right = decode(product.right, product.right_by_terms);
  float rows[2][TERMS];
  for (uint32_t h = 0; h < 2; ++h)
    for (uint32_t k = 0; k < TERMS; ++k)
      rows[h][k] = read(left, product, thread / 32 * 16 + thread % 32 / 4 + 8 * h, k);
  for (uint32_t c = 0; c < columns / 8; ++c) {
    for (uint32_t p = 0; p < 2; ++p) {
      float* pair[] = {&sums[4 * c + p], &sums[4 * c + 2 + p]};
      if (!product.add) *pair[0] = *pair[1] = 0.0f;
      for (uint32_t k = 0; k < TERMS; ++k) {
        float factor = product.scale * read(right, product, 8 * c + 2 * (thread % 4) + p, k);
        for (uint32_t h = 0; h < 2; ++h) *pair[h] += rows[h][k] * factor;
      }
    }
  }
}

// All threads of a warpgroup give the same descriptors.
void check_agreement(const emu_warpgroup_product& product) {
  Fiber* own = running.fiber;
  auto& issued = running.warpgroups[own->number / WARPGROUP];
  size_t number = own->products.issued++;
  if (number == issued.size()) issued.push_back(product);
  const emu_warpgroup_product& first = issued[number];
  if (first.left != product.left || first.right != product.right || first.add != product.add ||
      first.columns != product.columns)
    fail("wgmma", thread_text(access_now().thread) +
                      " gives a wgmma other matrices than other threads of its warpgroup");
}

void require_fence(const WarpgroupProducts& products, float** registers, int count) {
  if (products.fenced) return;
  auto left = products.left.find(registers[0]);
  bool same = left != products.left.end() && int(left->second.size()) == count;
  for (int n = 0; same && n < count; ++n) same = *registers[n] == left->second[n];
  if (!same)
    report("wgmma", thread_text(access_now().thread) +
                        " has changed registers of a wgmma, and no wgmma.fence lies between");
}

}  // namespace

void check_warpgroups(const std::vector<Fiber*>& fibers) {
  for (const Fiber* one : fibers)
    if (one->products.issued != fibers[one->number / WARPGROUP * WARPGROUP]->products.issued) {
      report("wgmma", "the threads of a warpgroup take part in different numbers of wgmma");
      return;
    }
}

extern "C" {

void emu_wgmma_issue(const emu_warpgroup_product* product, float** registers) {
  WarpgroupProducts& products = running.fiber->products;
  const unsigned* b = running.launch->block;
  if (b[0] * b[1] * b[2] % WARPGROUP)
    fail("wgmma", "a block with wgmma needs a multiple of 128 threads; this one has " +
                      std::to_string(b[0] * b[1] * b[2]));
  check_agreement(*product);
  int count = product->columns / 2;
  auto& sums = products.sums[registers[0]];
  if (sums.empty()) {
    require_fence(products, registers, count);
    for (int n = 0; n < count; ++n) {
      sums.push_back(*registers[n]);
      *registers[n] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  products.open.push_back({*product, std::vector<float*>(registers, registers + count)});
}

void emu_wgmma_fence() { running.fiber->products.fenced = true; }

void emu_wgmma_commit() {
  WarpgroupProducts& products = running.fiber->products;
  products.groups.push_back(std::move(products.open));
  products.open.clear();
}

void emu_wgmma_wait(size_t pending_groups) {
  WarpgroupProducts& products = running.fiber->products;
  bool checked = running.checked;
  running.checked = false;
  while (products.groups.size() > pending_groups) {
    std::vector<IssuedProduct> group = std::move(products.groups.front());
    products.groups.erase(products.groups.begin());
    for (const IssuedProduct& one : group)
      multiply(one.product, products.sums[one.registers[0]].data());
    for (const IssuedProduct& one : group) {
      auto sums = products.sums.find(one.registers[0]);
      if (sums == products.sums.end() || products.uses(one.registers[0])) continue;
      for (size_t n = 0; n < one.registers.size(); ++n) *one.registers[n] = sums->second[n];
      products.left[one.registers[0]] = std::move(sums->second);
      products.sums.erase(sums);
    }
    products.fenced = false;
  }
  running.checked = checked;
}

void emu_proxy_fence() {
  settle_writes();
  running.fiber->proxy_fences.push_back(running.block_barriers);
}

}  // extern "C"
