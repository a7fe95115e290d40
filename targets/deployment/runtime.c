/* The run time of exported kernels: checks, threads, scratch memory, errors. C11 on Linux.
 *
 * All of it is weak: of several libraries in one program the linker takes one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

#include "kernel.h"

#define SHARED __attribute__((weak, visibility("default")))
#define MOST_THREADS 256
/* Code adds the number of parts to that of a loop's iterations, in 32 bits. */
#define MOST_PARTS 65536

/* -- errors ------------------------------------------------------------------------------------ */

static _Thread_local char error_text[1024];
static _Thread_local int error_status;

SHARED const char *schedlang_error(void) { return error_text; }

SHARED int schedlang_fail_1(int status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error_text, sizeof error_text, format, values);
  va_end(values);
  return error_status = status;
}

SHARED void schedlang_raise_1(const char *kind, const char **parts, int count) {
  error_status = SCHEDLANG_FAILED;
  size_t used = (size_t)snprintf(error_text, sizeof error_text, "%s: ", kind);
  for (int i = 0; i < count && used < sizeof error_text; ++i)
    used += (size_t)snprintf(error_text + used, sizeof error_text - used, "%s", parts[i]);
}

/* -- scratch memory ---------------------------------------------------------------------------- */

/* TVM's code frees in the opposite order; a block is given again to the next that fits. */
typedef struct block {
  struct block *next;
  uint64_t bytes;
  int in_use;
} block;

enum { ALIGNMENT = 64 };

static _Thread_local block *blocks;
static _Thread_local int depth; /* of calls of kernels in this thread */
static pthread_key_t blocks_key;
static int has_key;
static pthread_once_t blocks_once = PTHREAD_ONCE_INIT;

static void free_blocks(void *first) {
  blocks = NULL;
  for (block *one = first, *next; one; one = next) {
    next = one->next;
    free(one);
  }
}

static void make_blocks_key(void) { has_key = !pthread_key_create(&blocks_key, free_blocks); }

static void *no_memory(uint64_t bytes) {
  schedlang_fail_1(SCHEDLANG_MEMORY, "there is no memory for %llu bytes", (unsigned long long)bytes);
  return NULL;
}

/* Code that failed has not freed what it had. */
static void release_blocks(void) {
  for (block *one = blocks; one; one = one->next) one->in_use = 0;
}

SHARED void *schedlang_allocate_1(uint64_t bytes) {
  block *found = NULL;
  for (block *one = blocks; one; one = one->next)
    if (!one->in_use && one->bytes >= bytes && (!found || one->bytes < found->bytes)) found = one;
  if (!found) {
    if (bytes > SIZE_MAX - 2 * ALIGNMENT) return no_memory(bytes);
    uint64_t size = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    found = aligned_alloc(ALIGNMENT, ALIGNMENT + size);
    if (!found) return no_memory(bytes);
    found->bytes = size;
    found->next = blocks;
    blocks = found;
    pthread_once(&blocks_once, make_blocks_key);
    if (has_key) pthread_setspecific(blocks_key, blocks);
  }
  found->in_use = 1;
  return (char *)found + ALIGNMENT;
}

SHARED int schedlang_free_1(void *memory) {
  ((block *)((char *)memory - ALIGNMENT))->in_use = 0;
  return 0;
}

/* -- threads ----------------------------------------------------------------------------------- */

/* A job has one part for each thread. Thread i takes part i; whoever is done takes what is left, so
 * that nobody waits for a thread that the system does not run. A part is open while its state is
 * twice the job's number: a thread that comes late finds another number there. */
typedef struct {
  _Atomic uint64_t state;
  char apart[56];
} part;

static struct {
  pthread_mutex_t busy; /* held by the thread whose job it is */
  pthread_mutex_t lock; /* of sleeping */
  pthread_cond_t wake;
  _Atomic uint64_t job;
  _Atomic int sleeping, pending, status;
  _Atomic int spin; /* microseconds */
  int workers;
  int (*task)(void *data, int index);
  void *data;
  part parts[MOST_THREADS];
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .spin = 100};

static _Atomic int wanted_threads;
static _Thread_local int inside; /* a part of a job: loops in it run in this thread */

/* The caller's parallel-for. One that is set is not changed any more, and kept for ever. */
typedef struct {
  schedlang_for run;
  void *context;
  int threads;
} parallel_for;

static _Atomic(parallel_for *) given;

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now(void) { /* microseconds */
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void take(uint64_t job, int index) {
  uint64_t open = 2 * job;
  if (!atomic_compare_exchange_strong(&pool.parts[index].state, &open, open + 1)) return;
  int status = pool.task(pool.data, index);
  if (status) atomic_store(&pool.status, status);
  atomic_fetch_sub(&pool.pending, 1);
}

static uint64_t next_job(uint64_t seen) {
  uint64_t job;
  int64_t end = now() + atomic_load(&pool.spin);
  do {
    for (int i = 0; i < 64; ++i) {
      if ((job = atomic_load_explicit(&pool.job, memory_order_acquire)) != seen) return job;
      relax();
    }
  } while (now() < end);
  pthread_mutex_lock(&pool.lock);
  atomic_fetch_add(&pool.sleeping, 1);
  while ((job = atomic_load(&pool.job)) == seen) pthread_cond_wait(&pool.wake, &pool.lock);
  atomic_fetch_sub(&pool.sleeping, 1);
  pthread_mutex_unlock(&pool.lock);
  return job;
}

/* CPUs of the process: a thread that calls may be bound to one of them. */
static int process_cpus(cpu_set_t *set) { return sched_getaffinity(getpid(), sizeof *set, set); }

static void *work(void *number) {
  int self = (int)(intptr_t)number;
  uint64_t job = 0;
  cpu_set_t set;
  if (!process_cpus(&set)) sched_setaffinity(0, sizeof set, &set);
  inside = 1;
  for (;;) {
    job = next_job(job);
    take(job, self);
  }
  return NULL;
}

/* A forked process has none of the threads. */
static void after_fork(void) {
  static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static const pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pool.busy = pool.lock = mutex;
  pool.wake = condition;
  pool.workers = 0;
  atomic_store(&pool.sleeping, 0);
  atomic_fetch_add(&pool.job, 1); /* what another thread had begun is not to be taken up */
}

static void start_workers(int count) {
  if (pool.workers >= count) return;
  static int registered;
  if (!registered) registered = pthread_atfork(NULL, NULL, after_fork) == 0;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's own affair */
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (pool.workers < count) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work, (void *)(intptr_t)(pool.workers + 1))) break;
    ++pool.workers;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int one_by_one(int count, int (*task)(void *, int), void *data) {
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    int status = task(data, i);
    if (status) failed = status;
  }
  return failed;
}

SHARED int schedlang_parallel(void *context, int count, int (*task)(void *data, int index),
                              void *data) {
  (void)context;
  if (count <= 1 || count > MOST_THREADS || inside || pthread_mutex_trylock(&pool.busy))
    return one_by_one(count, task, data);
  start_workers(count - 1);
  uint64_t job = atomic_load(&pool.job) + 1;
  pool.task = task;
  pool.data = data;
  atomic_store(&pool.status, 0);
  atomic_store(&pool.pending, count);
  for (int i = 0; i < count; ++i) atomic_store(&pool.parts[i].state, 2 * job);
  atomic_store(&pool.job, job);
  if (atomic_load(&pool.sleeping)) {
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
  }
  inside = 1;
  for (int i = 0; i < count; ++i) take(job, i);
  inside = 0;
  for (int spins = 0; atomic_load_explicit(&pool.pending, memory_order_acquire); ++spins)
    spins < 4096 ? relax() : (void)sched_yield();
  int status = atomic_load(&pool.status);
  pthread_mutex_unlock(&pool.busy);
  return status;
}

SHARED void schedlang_set_threads(int threads, int spin_microseconds) {
  atomic_store(&wanted_threads, threads < 0 ? 0 : threads > MOST_THREADS ? MOST_THREADS : threads);
  if (spin_microseconds >= 0) atomic_store(&pool.spin, spin_microseconds);
}

SHARED void schedlang_set_parallel(schedlang_for run, void *context, int threads) {
  parallel_for *made = run ? malloc(sizeof *made) : NULL;
  if (made) *made = (parallel_for){run, context,
                                  threads < 1 ? 1 : threads > MOST_PARTS ? MOST_PARTS : threads};
  atomic_store(&given, made);
}

static int usable_cpus(void) {
  static _Atomic int known;
  int count = atomic_load(&known);
  if (!count) {
    cpu_set_t set;
    count = process_cpus(&set) ? MOST_THREADS : CPU_COUNT(&set);
    atomic_store(&known, count);
  }
  return count;
}

typedef struct {
  int (*loop)(int index, void *group, void *data);
  void *data;
  struct { /* TVMParallelGroupEnv */
    void *sync_handle;
    int32_t num_task;
  } group;
} parallel_loop;

static int run_part(void *data, int index) {
  parallel_loop *one = data;
  return one->loop(index, &one->group, one->data);
}

SHARED int schedlang_launch_1(int (*loop)(int, void *, void *), void *data, int parts) {
  parallel_for *mine = atomic_load(&given), own = {schedlang_parallel, NULL, 0};
  if (!mine) {
    own.threads = atomic_load(&wanted_threads);
    if (!own.threads) own.threads = parts < usable_cpus() ? parts : usable_cpus();
    if (own.threads > MOST_THREADS) own.threads = MOST_THREADS;
    mine = &own;
  }
  parallel_loop one = {loop, data, {NULL, mine->threads}};
  int status = mine->run(mine->context, mine->threads, run_part, &one);
  if (!status) return 0;
  if (!error_text[0])
    schedlang_fail_1(SCHEDLANG_FAILED, "a parallel loop ended with the status %d", status);
  return -1;
}

/* -- calls ------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
static const struct {
  const char *name;
  unsigned leaf, subleaf, word, bit; /* word: 0 eax, 1 ebx, 2 ecx, 3 edx */
  unsigned state;                    /* registers that the system must save, by XCR0 */
} cpu_features[] = {
    {"sse4.2 ", 1, 0, 2, 20, 0},
    {"avx ", 1, 0, 2, 28, 0x6},
    {"avx2 ", 7, 0, 1, 5, 0x6},
    {"fma ", 1, 0, 2, 12, 0x6},
    {"f16c ", 1, 0, 2, 29, 0x6},
    {"bmi ", 7, 0, 1, 3, 0},
    {"bmi2 ", 7, 0, 1, 8, 0},
    {"lzcnt ", 0x80000001, 0, 2, 5, 0},
    {"movbe ", 1, 0, 2, 22, 0},
    {"avx512f ", 7, 0, 1, 16, 0xe6},
    {"avx512bw ", 7, 0, 1, 30, 0xe6},
    {"avx512cd ", 7, 0, 1, 28, 0xe6},
    {"avx512dq ", 7, 0, 1, 17, 0xe6},
    {"avx512vl ", 7, 0, 1, 31, 0xe6},
    {"avx512ifma ", 7, 0, 1, 21, 0xe6},
    {"avx512vbmi ", 7, 0, 2, 1, 0xe6},
    {"avx512vbmi2 ", 7, 0, 2, 6, 0xe6},
    {"avx512bitalg ", 7, 0, 2, 12, 0xe6},
    {"avx512vpopcntdq ", 7, 0, 2, 14, 0xe6},
    {"avx512vp2intersect ", 7, 0, 3, 8, 0xe6},
    {"avx512vnni ", 7, 0, 2, 11, 0xe6},
    {"avx512bf16 ", 7, 1, 0, 5, 0xe6},
    {"avx512fp16 ", 7, 0, 3, 23, 0xe6},
    {"avxvnni ", 7, 1, 0, 4, 0x6},
    {"amx-tile ", 7, 0, 3, 24, 0x60000},
    {"amx-int8 ", 7, 0, 3, 25, 0x60000},
    {"amx-bf16 ", 7, 0, 3, 22, 0x60000},
};

static int has_feature(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof cpu_features / sizeof *cpu_features; ++i) {
    if (strncmp(cpu_features[i].name, name, length + 1)) continue;
    unsigned words[4] = {0}, first[4] = {0};
    if (!__get_cpuid_count(cpu_features[i].leaf, cpu_features[i].subleaf, words, words + 1,
                           words + 2, words + 3))
      return 0;
    unsigned saved = 0, high;
    __get_cpuid(1, first, first + 1, first + 2, first + 3);
    if (first[2] >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    return (words[cpu_features[i].word] >> cpu_features[i].bit & 1) &&
           (saved & cpu_features[i].state) == cpu_features[i].state;
  }
  return 1; /* not known here */
}
#elif defined(__aarch64__)
static int has_feature(const char *name, size_t length) {
  static const struct {
    const char *name;
    unsigned long type, bit;
  } known[] = {{"neon ", AT_HWCAP, 1},   {"fullfp16 ", AT_HWCAP, 10}, {"dotprod ", AT_HWCAP, 20},
               {"sve ", AT_HWCAP, 22},   {"sve2 ", AT_HWCAP2, 1},     {"i8mm ", AT_HWCAP2, 13},
               {"bf16 ", AT_HWCAP2, 14}, {"sme ", AT_HWCAP2, 23}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (!strncmp(known[i].name, name, length + 1)) return getauxval(known[i].type) >> known[i].bit & 1;
  return 1;
}
#else
static int has_feature(const char *name, size_t length) { return (void)name, (void)length, 1; }
#endif

static int has_sve(int bits) {
#if defined(__aarch64__)
  return (prctl(PR_SVE_GET_VL) & 0xffff) * 8 >= bits;
#else
  return !bits;
#endif
}

static int check_machine(const schedlang_function *function) {
  if (__atomic_load_n(function->checked, __ATOMIC_RELAXED)) return SCHEDLANG_OK;
  for (const char *name = function->features, *end; (end = strchr(name, ' ')); name = end + 1)
    if (!has_feature(name, (size_t)(end - name)))
      return schedlang_fail_1(SCHEDLANG_MACHINE,
                              "%s: this machine lacks %.*s: export the kernel for this machine",
                              function->name, (int)(end - name), name);
  if (function->sve_bits && !has_sve(function->sve_bits))
    return schedlang_fail_1(SCHEDLANG_MACHINE,
                            "%s: this machine has no SVE registers of %d bits: export the kernel "
                            "for this machine",
                            function->name, function->sve_bits);
  __atomic_store_n(function->checked, 1, __ATOMIC_RELAXED);
  return SCHEDLANG_OK;
}

static int check_pointer(const schedlang_function *function, int i, const void *data) {
  const schedlang_parameter *one = &function->parameters[i];
  if (!data)
    return schedlang_fail_1(SCHEDLANG_NULL, "%s: argument %d is null; it takes %s", function->name,
                            i, one->text);
  if ((uintptr_t)data % one->alignment)
    return schedlang_fail_1(SCHEDLANG_ALIGNMENT,
                            "%s: argument %d is at %p; %s must be at a multiple of %d bytes",
                            function->name, i, data, one->text, one->alignment);
  return SCHEDLANG_OK;
}

static int check_overlaps(const schedlang_function *function, const schedlang_any *arguments) {
  for (int i = 0; i < function->count; ++i) {
    const schedlang_parameter *one = &function->parameters[i];
    if (!one->written || one->ndim < 0) continue;
    uintptr_t start = (uintptr_t)arguments[i].v_ptr;
    for (int k = 0; k < function->count; ++k) {
      const schedlang_parameter *other = &function->parameters[k];
      if (k == i || other->ndim < 0 || (other->written && k < i)) continue;
      uintptr_t begin = (uintptr_t)arguments[k].v_ptr;
      if (start < begin + other->bytes && begin < start + one->bytes)
        return schedlang_fail_1(SCHEDLANG_OVERLAP,
                                "%s: arguments %d and %d share memory, and %s is written",
                                function->name, i, k, one->text);
    }
  }
  return SCHEDLANG_OK;
}

SHARED int schedlang_call_1(const schedlang_function *function, schedlang_any *arguments) {
  int count = function->count, status = check_machine(function);
  if (status) return status;
  for (int i = 0; i < count; ++i) {
    if (function->parameters[i].ndim < 0) continue;
    if ((status = check_pointer(function, i, arguments[i].v_ptr))) return status;
  }
  if ((status = check_overlaps(function, arguments))) return status;
  schedlang_tensor tensors[count > 0 ? count : 1];
  for (int i = 0; i < count; ++i) {
    const schedlang_parameter *one = &function->parameters[i];
    if (one->ndim < 0) continue;
    tensors[i] = (schedlang_tensor){arguments[i].v_ptr,       {1, 0}, one->ndim,
                                    {one->code, one->bits, 1}, (int64_t *)one->shape, NULL, 0};
    arguments[i].v_ptr = &tensors[i];
  }
  schedlang_any result = {0, 0, {0}};
  error_text[0] = 0;
  ++depth;
  status = function->code(NULL, arguments, count, &result);
  --depth;
  if (!status) return SCHEDLANG_OK;
  if (!depth) release_blocks();
  if (error_text[0]) return error_status;
  return schedlang_fail_1(SCHEDLANG_FAILED, "%s: it failed with the status %d", function->name,
                          status);
}

static int check_tensor(const schedlang_function *function, int i, const schedlang_tensor *tensor) {
  const schedlang_parameter *one = &function->parameters[i];
  if (!tensor)
    return schedlang_fail_1(SCHEDLANG_NULL, "%s: argument %d is null; it takes %s", function->name,
                            i, one->text);
  if (tensor->device.device_type != 1)
    return schedlang_fail_1(SCHEDLANG_DEVICE, "%s: argument %d is not in main memory",
                            function->name, i);
  if (tensor->dtype.code != one->code || tensor->dtype.bits != one->bits ||
      tensor->dtype.lanes != 1)
    return schedlang_fail_1(SCHEDLANG_TYPE,
                            "%s: argument %d has elements of the type (%d, %d bits, %d lanes); it "
                            "takes %s",
                            function->name, i, tensor->dtype.code, tensor->dtype.bits,
                            tensor->dtype.lanes, one->text);
  int fits = tensor->ndim == one->ndim && (tensor->shape || !one->ndim);
  for (int axis = 0; fits && axis < one->ndim; ++axis)
    fits = tensor->shape[axis] == one->shape[axis];
  if (!fits)
    return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: argument %d has another shape; it takes %s",
                            function->name, i, one->text);
  int64_t stride = 1;
  for (int axis = one->ndim - 1; tensor->strides && axis >= 0; --axis) {
    if (one->shape[axis] != 1 && tensor->strides[axis] != stride)
      return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: argument %d is not contiguous", function->name,
                              i);
    stride *= one->shape[axis];
  }
  return SCHEDLANG_OK;
}

SHARED int schedlang_call_tensors_1(const schedlang_function *function,
                                    const schedlang_tensor *const *tensors, int count) {
  if (count != function->count)
    return schedlang_fail_1(SCHEDLANG_COUNT, "%s: it takes %d tensors, and got %d", function->name,
                            function->count, count);
  if (!tensors)
    return schedlang_fail_1(SCHEDLANG_NULL, "%s: the array of tensors is null", function->name);
  schedlang_any arguments[count > 0 ? count : 1];
  for (int i = 0; i < count; ++i) {
    int status = check_tensor(function, i, tensors[i]);
    if (status) return status;
    void *data = tensors[i]->data ? (char *)tensors[i]->data + tensors[i]->byte_offset : NULL;
    arguments[i] = (schedlang_any){SCHEDLANG_DLTENSOR, 0, {.v_ptr = data}};
  }
  return schedlang_call_1(function, arguments);
}

/* Whether the tensors, or only the inputs among them, have the shapes of the parameters. */
static int fits(const schedlang_function *function, const schedlang_tensor *const *tensors,
                int inputs_only) {
  for (int i = 0; i < function->count; ++i) {
    const schedlang_parameter *one = &function->parameters[i];
    if (one->written && inputs_only) continue;
    if (!tensors[i] || tensors[i]->ndim != one->ndim || (one->ndim && !tensors[i]->shape)) return 0;
    for (int axis = 0; axis < one->ndim; ++axis)
      if (tensors[i]->shape[axis] != one->shape[axis]) return 0;
  }
  return 1;
}

static int check_count(const char *name, const schedlang_function *function,
                       const schedlang_tensor *const *tensors, int count) {
  if (count == function->count && tensors) return SCHEDLANG_OK;
  return schedlang_fail_1(tensors ? SCHEDLANG_COUNT : SCHEDLANG_NULL,
                          "%s: it takes %d tensors, and got %d", name, function->count,
                          tensors ? count : 0);
}

SHARED int schedlang_call_sizes_1(const char *name, const schedlang_function *const *functions,
                                  int sizes, const char *known,
                                  const schedlang_tensor *const *tensors, int count) {
  int status = check_count(name, functions[0], tensors, count);
  if (status) return status;
  for (int i = 0; i < sizes; ++i)
    if (fits(functions[i], tensors, 1)) return schedlang_call_tensors_1(functions[i], tensors, count);
  return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: no size has the shapes of the inputs; there are %s",
                          name, known);
}

/* -- ranges ------------------------------------------------------------------------------------ */

static int within(const schedlang_range *range, const int64_t *extents) {
  for (int i = 0; i < range->count; ++i)
    if (extents[i] < range->extents[i].low || extents[i] > range->extents[i].high) return 0;
  return 1;
}

static int outside(const schedlang_range *range, const int64_t *extents) {
  for (int i = 0; i < range->count; ++i)
    if (extents[i] < range->extents[i].low || extents[i] > range->extents[i].high)
      return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: it serves %s, and not %s=%lld",
                              range->function->name, range->served, range->extents[i].name,
                              (long long)extents[i]);
  return SCHEDLANG_OK;
}

/* Writes the extents that the tensors' shapes tell; returns 0 where these have other axes. */
static int read_extents(const schedlang_range *range, const schedlang_tensor *const *tensors,
                        int64_t *extents) {
  for (int i = 0; i < range->count; ++i) {
    const schedlang_extent *one = &range->extents[i];
    extents[i] = one->low;
    if (one->argument < 0) continue;
    const schedlang_tensor *tensor = tensors[one->argument];
    if (!tensor || tensor->ndim != range->function->parameters[one->argument].ndim ||
        !tensor->shape)
      return 0;
    if (__builtin_sub_overflow(tensor->shape[one->axis], one->more, &extents[i])) return 0;
  }
  return 1;
}

/* Returns the function for some extents; `parameters` and `sizes` are where its shapes are kept. */
static schedlang_function at_extents(const schedlang_range *range, const int64_t *extents,
                                     schedlang_parameter *parameters, int64_t *sizes) {
  schedlang_function own = *range->function;
  if (!range->shapes) return own;
  memcpy(parameters, own.parameters, (size_t)own.count * sizeof *parameters);
  range->shapes(extents, sizes);
  for (int i = 0; i < own.count; ++i) {
    schedlang_parameter *one = &parameters[i];
    if (one->ndim < 0) continue;
    one->shape = sizes;
    one->bytes = one->bits / 8;
    for (int axis = 0; axis < one->ndim; ++axis) one->bytes *= (uint64_t)*sizes++;
  }
  own.parameters = parameters;
  return own;
}

SHARED int schedlang_call_range_1(const schedlang_range *range, const int64_t *extents,
                                  schedlang_any *arguments) {
  if (!within(range, extents)) return outside(range, extents);
  schedlang_parameter parameters[range->function->count + 1];
  int64_t sizes[range->axes + 1];
  schedlang_function own = at_extents(range, extents, parameters, sizes);
  return schedlang_call_1(&own, arguments);
}

SHARED int schedlang_call_range_tensors_1(const schedlang_range *range,
                                          const schedlang_tensor *const *tensors, int count) {
  const schedlang_function *function = range->function;
  int status = check_count(function->name, function, tensors, count);
  if (status) return status;
  int64_t extents[range->count + 1], sizes[range->axes + 1];
  schedlang_parameter parameters[count + 1];
  for (int i = 0; i < count; ++i) {
    const char *text = function->parameters[i].text;
    if (!tensors[i])
      return schedlang_fail_1(SCHEDLANG_NULL, "%s: argument %d is null; it takes %s",
                              function->name, i, text);
    if (tensors[i]->ndim != function->parameters[i].ndim)
      return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: argument %d has another shape; it takes %s",
                              function->name, i, text);
  }
  if (!read_extents(range, tensors, extents))
    return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: a shape is null, or none that there is",
                            function->name);
  if (!within(range, extents)) return outside(range, extents);
  schedlang_function own = at_extents(range, extents, parameters, sizes);
  return schedlang_call_tensors_1(&own, tensors, count);
}

SHARED int schedlang_call_ranges_1(const char *name, const schedlang_range *const *ranges,
                                   int number, const char *known,
                                   const schedlang_tensor *const *tensors, int count) {
  int extent_count = ranges[0]->count;
  int64_t extents[extent_count + 1], first[extent_count + 1];
  if (!tensors) return schedlang_fail_1(SCHEDLANG_NULL, "%s: the array of tensors is null", name);
  const schedlang_range *found = NULL;
  for (int i = 0; i < number; ++i) {
    const schedlang_range *one = ranges[i];
    int64_t sizes[one->axes + 1];
    schedlang_parameter parameters[one->function->count + 1];
    if (one->function->count != count || !read_extents(one, tensors, extents) ||
        !within(one, extents))
      continue;
    schedlang_function own = at_extents(one, extents, parameters, sizes);
    if (!fits(&own, tensors, 0)) continue;
    if (found && memcmp(first, extents, (size_t)extent_count * sizeof *first))
      return schedlang_fail_1(SCHEDLANG_SHAPE,
                              "%s: tensors of these shapes fit several: call %s or %s by its name",
                              name, found->function->name, one->function->name);
    if (found) continue;
    found = one;
    memcpy(first, extents, (size_t)extent_count * sizeof *first);
  }
  if (found) return schedlang_call_range_tensors_1(found, tensors, count);
  return schedlang_fail_1(SCHEDLANG_SHAPE, "%s: none has the shapes of the tensors; there are %s",
                          name, known);
}

/* -- networks ---------------------------------------------------------------------------------- */

static int32_t run_step(const schedlang_step *step, char *const *places) {
  int32_t count = step->count;
  schedlang_tensor tensors[count];
  schedlang_any arguments[count], result = {0, 0, {0}};
  for (int i = 0; i < count; ++i) {
    const schedlang_operand *one = &step->operands[i];
    if (one->place < 0) {
      arguments[i] = (schedlang_any){SCHEDLANG_INT, 0, {one->offset}};
      continue;
    }
    tensors[i] = (schedlang_tensor){places[one->place] + one->offset, {1, 0}, one->ndim,
                                    {one->code, one->bits, 1}, (int64_t *)one->shape, NULL, 0};
    arguments[i] = (schedlang_any){SCHEDLANG_DLTENSOR, 0, {.v_ptr = &tensors[i]}};
  }
  if (step->code) return step->code(NULL, arguments, count, &result);
  memcpy(tensors[0].data, tensors[1].data, step->bytes);
  return 0;
}

SHARED int32_t schedlang_run_1(const schedlang_steps *steps, const schedlang_any *arguments,
                               int32_t count) {
  char *places[2 + count];
  places[0] = schedlang_allocate_1(steps->scratch);
  if (!places[0]) return -1;
  places[1] = (char *)steps->weights;
  for (int i = 0; i < count; ++i) places[2 + i] = ((schedlang_tensor *)arguments[i].v_ptr)->data;
  int32_t status = 0;
  for (int i = 0; !status && i < steps->count; ++i) status = run_step(&steps->steps[i], places);
  schedlang_free_1(places[0]);
  return status;
}
