/* What all libraries have in common that schedlang exports to C. */
#ifndef SCHEDLANG_H
#define SCHEDLANG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel returns. */
enum schedlang_status {
  SCHEDLANG_OK = 0,
  SCHEDLANG_NULL = 1,      /* a pointer is null */
  SCHEDLANG_COUNT = 2,     /* another number of tensors */
  SCHEDLANG_TYPE = 3,      /* another element type */
  SCHEDLANG_SHAPE = 4,     /* another shape, or not contiguous in C's order */
  SCHEDLANG_DEVICE = 5,    /* not in main memory */
  SCHEDLANG_ALIGNMENT = 6, /* an address that is no multiple of the element's size */
  SCHEDLANG_OVERLAP = 7,   /* an output shares memory with another tensor */
  SCHEDLANG_MACHINE = 8,   /* this machine lacks instructions that the code has */
  SCHEDLANG_MEMORY = 9,    /* no memory */
  SCHEDLANG_FAILED = 10    /* the caller's parallel-for, or the code itself, failed */
};

/* A tensor as DLPack 1 has it: a DLTensor, whose pointers fit here too. */
typedef struct {
  void *data;
  struct {
    int32_t device_type; /* 1: main memory */
    int32_t device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code; /* 0: signed, 1: unsigned, 2: float, 4: bfloat, 6: bool */
    uint8_t bits;
    uint16_t lanes; /* 1 */
  } dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; null where it is contiguous */
  uint64_t byte_offset;
} schedlang_tensor;

/* Says why the last call of a kernel in this thread failed; empty where none did. */
const char *schedlang_error(void);

/* Has parallel loops use this many threads, the caller's among them. 0, as at the beginning, is as
 * many as a kernel was tuned for, and not more than the CPUs that the process may use. Threads are
 * started by the first loop that needs them, and sleep when they have had nothing to do for
 * `spin_microseconds`; negative leaves that as it is (100). */
void schedlang_set_threads(int threads, int spin_microseconds);

/* Runs task(data, i) for each i from 0 to count - 1, in any order and in any threads, and returns
 * when all are done: 0, or what a task returned that is not. */
typedef int (*schedlang_for)(void *context, int count, int (*task)(void *data, int index),
                             void *data);

/* Has kernels run their parallel loops by `run`, in `threads` parts, at most 65,536; a null `run`
 * goes back to the library's own threads. Libraries that are linked into one program share these; those that are
 * opened apart (dlopen, Python) do where one is given the `schedlang_parallel` of the other. */
void schedlang_set_parallel(schedlang_for run, void *context, int threads);

/* The library's own threads, as a function that another library can be given. */
int schedlang_parallel(void *context, int count, int (*task)(void *data, int index), void *data);

#ifdef __cplusplus
}
#endif
#endif /* SCHEDLANG_H */
