/* Between the code of one library and its run time: what a user's program does not see. */
#ifndef SCHEDLANG_KERNEL_H
#define SCHEDLANG_KERNEL_H

#include <stddef.h>

#include "schedlang.h"

/* TVM's type for an argument: TVMFFIAny. */
typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
  };
} schedlang_any;

enum { SCHEDLANG_INT = 1, SCHEDLANG_BOOL = 2, SCHEDLANG_FLOAT = 3, SCHEDLANG_DLTENSOR = 7 };

typedef int32_t (*schedlang_code)(void *self, const schedlang_any *arguments, int32_t count,
                                  schedlang_any *result);

typedef struct {
  const char *text; /* such as "A: float32[64, 64]" */
  int32_t ndim;     /* negative for a number that is no tensor */
  uint8_t code, bits, written;
  uint8_t alignment; /* in bytes */
  const int64_t *shape;
  uint64_t bytes;
} schedlang_parameter;

typedef struct {
  const char *name;
  schedlang_code code;
  int32_t count;
  const schedlang_parameter *parameters;
  const char *features; /* of the CPU, by LLVM's names, a space after each */
  int32_t sve_bits;     /* width of SVE registers that the code needs; 0 without */
  int *checked;         /* whether this machine was found to have them */
} schedlang_function;

/* An extent: its values, and the shape that tells it. */
typedef struct {
  const char *name;
  int64_t low, high;
  int32_t argument, axis; /* a negative argument: it is fixed */
  int64_t more;           /* by how much the shape is more than the extent */
} schedlang_extent;

/* A function whose tensors' shapes follow from extents. */
typedef struct {
  const schedlang_function *function;
  const char *served;  /* such as "rows=1 to 512, width=768" */
  int32_t count, axes; /* of extents, and of all tensors together */
  const schedlang_extent *extents;
  void (*shapes)(const int64_t *extents, int64_t *sizes); /* null where they are fixed */
} schedlang_range;

/* A tensor of a step, or an integer. */
typedef struct {
  int32_t place;  /* of the array of places that a network begins a call with; -1: an integer */
  int32_t ndim;
  int64_t offset; /* in bytes; the integer */
  uint8_t code, bits;
  const int64_t *shape;
} schedlang_operand;

/* A call of a function; without code, a copy of so many bytes from the second operand to the first. */
typedef struct {
  schedlang_code code;
  int32_t count;
  const schedlang_operand *operands;
  uint64_t bytes;
} schedlang_step;

/* Functions called in order. Places: the scratch memory, the weights, the arguments. */
typedef struct {
  uint64_t scratch;
  const char *weights;
  int32_t count;
  const schedlang_step *steps;
} schedlang_steps;

int32_t schedlang_run_1(const schedlang_steps *steps, const schedlang_any *arguments,
                        int32_t count);

/* Checks the arguments (of tensors the address of the first element) and runs the code. */
int schedlang_call_1(const schedlang_function *function, schedlang_any *arguments);
/* The same for tensors. */
int schedlang_call_tensors_1(const schedlang_function *function,
                             const schedlang_tensor *const *tensors, int count);
/* The same for the first function whose inputs have the shapes of the tensors. All take as many;
 * `known` lists the sizes for those who have another. */
int schedlang_call_sizes_1(const char *name, const schedlang_function *const *functions, int sizes,
                           const char *known, const schedlang_tensor *const *tensors, int count);
/* Like schedlang_call_1 and schedlang_call_tensors_1, at these extents, or at those that the shapes
 * of the tensors tell. */
int schedlang_call_range_1(const schedlang_range *range, const int64_t *extents,
                           schedlang_any *arguments);
int schedlang_call_range_tensors_1(const schedlang_range *range,
                                   const schedlang_tensor *const *tensors, int count);
/* The same for the one of several that serves tensors of these shapes. */
int schedlang_call_ranges_1(const char *name, const schedlang_range *const *ranges, int number,
                            const char *known, const schedlang_tensor *const *tensors, int count);
/* A parallel loop of TVM's code, in so many parts unless the caller of the kernel has set another
 * number. */
int schedlang_launch_1(int (*loop)(int index, void *group, void *data), void *data, int parts);
/* Memory for the thread that calls; the same is given again. */
void *schedlang_allocate_1(uint64_t bytes);
int schedlang_free_1(void *memory);
/* Keeps the text for schedlang_error and returns the status. */
int schedlang_fail_1(int status, const char *format, ...);
/* What TVM's code says when it fails. */
void schedlang_raise_1(const char *kind, const char **parts, int count);

#endif
