// Barriers, and what the lanes of a warp do together.
#pragma once

inline void __syncthreads() { emu_sync_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emu_sync_warp(mask); }
inline unsigned __activemask() { return emu_active_mask(); }

template <class T>
struct emu_shuffle {
  T value, result;
  int source;
};

template <class T>
inline T emu_shuffled(const char* name, unsigned mask, T value, int source) {
  emu_shuffle<T> own = {value, value, source};
  emu_collective(name, mask, false, &own, [](void** data) {
    for (int lane = 0; lane < 32; ++lane) {
      if (!data[lane]) continue;
      emu_shuffle<T>* to = (emu_shuffle<T>*)data[lane];
      // The value of a lane that takes no part is undefined: poison.
      emu_shuffle<T>* from = (emu_shuffle<T>*)data[to->source];
      if (from) to->result = from->value;
      else std::memset((void*)&to->result, 0xff, sizeof(T));
    }
  });
  return own.result;
}

// Groups of `width` lanes; a lane whose source lies outside its group keeps its own value.
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  int first = emu_lane() & ~(width - 1);
  return emu_shuffled("__shfl_sync", mask, value, first + (source & (width - 1)));
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = emu_lane(), place = lane & (width - 1);
  return emu_shuffled("__shfl_down_sync", mask, value,
                      place + int(delta) < width ? lane + int(delta) : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = emu_lane(), place = lane & (width - 1);
  return emu_shuffled("__shfl_up_sync", mask, value,
                      place >= int(delta) ? lane - int(delta) : lane);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  int lane = emu_lane(), source = lane ^ bits;
  bool inside = (source & ~(width - 1)) <= (lane & ~(width - 1));
  return emu_shuffled("__shfl_xor_sync", mask, value, inside ? source : lane);
}

struct emu_vote {
  long long value;
  unsigned set;       // lanes with a value other than 0
  unsigned equal;     // lanes with the same value
  long long sum, smallest, largest;
};

inline emu_vote emu_voted(const char* name, unsigned mask, long long value) {
  emu_vote own = {value, 0, 0, 0, value, value};
  emu_collective(name, mask, false, &own, [](void** data) {
    for (int to = 0; to < 32; ++to) {
      emu_vote* one = (emu_vote*)data[to];
      for (int from = 0; one && from < 32; ++from) {
        emu_vote* other = (emu_vote*)data[from];
        if (!other) continue;
        one->set |= unsigned(other->value != 0) << from;
        one->equal |= unsigned(other->value == one->value) << from;
        one->sum += other->value;
        if (other->value < one->smallest) one->smallest = other->value;
        if (other->value > one->largest) one->largest = other->value;
      }
    }
  });
  return own;
}

inline unsigned __ballot_sync(unsigned mask, int value) {
  return emu_voted("__ballot_sync", mask, value != 0).set;
}
inline int __any_sync(unsigned mask, int value) {
  return emu_voted("__any_sync", mask, value != 0).set != 0;
}
inline int __all_sync(unsigned mask, int value) {
  return emu_voted("__all_sync", mask, value == 0).set == 0;
}
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value) {
  return emu_voted("__match_any_sync", mask, (long long)value).equal;
}
template <class T>
inline T __reduce_add_sync(unsigned mask, T value) {
  return T(emu_voted("__reduce_add_sync", mask, (long long)value).sum);
}
template <class T>
inline T __reduce_min_sync(unsigned mask, T value) {
  return T(emu_voted("__reduce_min_sync", mask, (long long)value).smallest);
}
template <class T>
inline T __reduce_max_sync(unsigned mask, T value) {
  return T(emu_voted("__reduce_max_sync", mask, (long long)value).largest);
}
