// What the compiler's thread sanitizer calls at each access to memory, and its check of indices.
#include <cstring>
#include <string>

#include "scheduler.h"

namespace {

[[noreturn]] void misaligned(const void* address, size_t bytes) {
  const char* memory = shared_memory.holds(address) ? "shared" : "global";
  fail("misaligned", thread_text(access_now().thread) + " accesses " + std::to_string(bytes) +
                         " bytes of " + memory + " memory at an address that is not aligned to them");
}

void check(const void* address, size_t bytes, Kind kind, size_t alignment = 1) {
  if (!running.checked) return;
  Arena* arena = global_memory.holds(address)   ? &global_memory
                 : shared_memory.holds(address) ? &shared_memory
                                                : nullptr;
  if (!arena) return;  // local memory
  if ((uintptr_t)address % alignment) misaligned(address, bytes);
  running.checked = false;
  check_access(*arena, address, bytes, kind);
  running.checked = true;
}

}  // namespace

extern "C" {

void emu_read(const void* address, size_t bytes) { check(address, bytes, Kind::read, bytes); }
void emu_write(void* address, size_t bytes) { check(address, bytes, Kind::write, bytes); }
void emu_atomic(void* address, size_t bytes) {
  running.atomics = true;
  check(address, bytes, Kind::atomic, bytes);
}

void emu_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void emu_misaligned(const void* address, size_t bytes) { misaligned(address, bytes); }

#define EMU_ACCESS(bytes)                                                                      \
  void __tsan_read##bytes(void* address) { check(address, bytes, Kind::read, bytes); }         \
  void __tsan_write##bytes(void* address) { check(address, bytes, Kind::write, bytes); }       \
  void __tsan_unaligned_read##bytes(void* address) { check(address, bytes, Kind::read); }      \
  void __tsan_unaligned_write##bytes(void* address) { check(address, bytes, Kind::write); }    \
  void __tsan_read_write##bytes(void* address) {                                               \
    check(address, bytes, Kind::read, bytes);                                                  \
    check(address, bytes, Kind::write, bytes);                                                 \
  }                                                                                            \
  void __tsan_unaligned_read_write##bytes(void* address) {                                     \
    check(address, bytes, Kind::read);                                                         \
    check(address, bytes, Kind::write);                                                        \
  }
EMU_ACCESS(1)
EMU_ACCESS(2)
EMU_ACCESS(4)
EMU_ACCESS(8)
EMU_ACCESS(16)
#undef EMU_ACCESS

void __tsan_read_range(void* address, size_t bytes) { check(address, bytes, Kind::read); }
void __tsan_write_range(void* address, size_t bytes) { check(address, bytes, Kind::write); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  check(from, bytes, Kind::read);
  check(to, bytes, Kind::write);
  return __builtin_memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  check(from, bytes, Kind::read);
  check(to, bytes, Kind::write);
  return __builtin_memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  check(to, bytes, Kind::write);
  return __builtin_memset(to, value, bytes);
}

// An index outside an array of a fixed size: `data` starts with the file and the line.
void __ubsan_handle_out_of_bounds(void* data, void* index) {
  struct Location { const char* file; uint32_t line, column; };
  fail("out_of_bounds", thread_text(access_now().thread) + " uses index " +
                            std::to_string((long long)index) + " outside an array, in line " +
                            std::to_string(((Location*)data)->line) + " of the generated source");
}

}  // extern "C"
