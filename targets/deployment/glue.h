/* What TVM's code wants of its run time: pointers that TVM would set when it loads a library. */
#ifndef SCHEDLANG_GLUE_H
#define SCHEDLANG_GLUE_H

#define SCHEDLANG_ENTRY __attribute__((visibility("default")))

#define SCHEDLANG_GLUE(threads) \
  static int schedlang_glue_launch(int (*loop)(int, void *, void *), void *data, int parts) { \
    return schedlang_launch_1(loop, data, parts > 0 ? parts : (threads)); \
  } \
  static void *schedlang_glue_allocate(int type, int number, uint64_t bytes, int code, int bits) { \
    return (void)type, (void)number, (void)code, (void)bits, schedlang_allocate_1(bytes); \
  } \
  static int schedlang_glue_release(int type, int number, void *memory) { \
    return (void)type, (void)number, schedlang_free_1(memory); \
  } \
  int (*__TVMBackendParallelLaunch)(int (*)(int, void *, void *), void *, int) = schedlang_glue_launch; \
  void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = schedlang_glue_allocate; \
  int (*__TVMBackendFreeWorkspace)(int, int, void *) = schedlang_glue_release; \
  void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) { \
    schedlang_raise_1(kind, parts, count); \
  } \
  void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { \
    schedlang_raise_1(kind, &message, 1); \
  }

#endif
