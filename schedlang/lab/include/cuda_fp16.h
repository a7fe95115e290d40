// All that CUDA declares here is in emulator.h.
