"""Programs in C and C++ that call exported kernels, rightly and wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.targets.deployment.c.conftest import Run

PRODUCT = r"""
#include <stdio.h>
#include <string.h>
#include "gemm.h"

static float a[64 * 64], b[64 * 64], c[64 * 64 + 1];

int main(void) {
  for (int i = 0; i < 64 * 64; ++i) a[i] = (float)(i % 7), b[i] = (float)(i % 5);
  if (gemm(a, b, c)) return puts(schedlang_error()), 1;
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 64; ++j) {
      float sum = 0;
      for (int k = 0; k < 64; ++k) sum += a[64 * i + k] * b[64 * k + j];
      if (sum != c[64 * i + j]) return printf("%d %d: %f %f\n", i, j, sum, c[64 * i + j]), 1;
    }
  puts("right");
  return 0;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
@pytest.mark.parametrize("compiler", [("cc", "-std=c11"), ("c++", "-std=c++17")])
def test_a_product(gemm: Path, suffix: str, compiler: tuple[str, ...], run_c: Run) -> None:
    text = PRODUCT
    assert run_c(text, gemm.with_suffix(suffix), compiler=compiler) == "right\n"


BOTH = r"""
#include <stdio.h>
#include "gemm.h"
#include "several.h"

static float a[64 * 64], b[64 * 64], c[64 * 64], x[8], y[8];

static int calls;
static int mine(void *context, int count, int (*task)(void *, int), void *data) {
  ++*(int *)context;
  for (int i = count - 1; i >= 0; --i)
    if (task(data, i)) return 1;
  return 0;
}
static int broken(void *context, int count, int (*task)(void *, int), void *data) {
  (void)context, (void)count, (void)task, (void)data;
  return 5;
}

int main(void) {
  schedlang_set_threads(2, 0);
  if (gemm(a, b, c) || several_twice(x, y)) return puts(schedlang_error()), 1;
  if (several_add_to(x, y)) return puts(schedlang_error()), 1;
  schedlang_set_parallel(mine, &calls, 4);
  if (gemm(a, b, c) || several_add_to(x, y)) return puts(schedlang_error()), 1;
  printf("%d\n", calls);
  schedlang_set_parallel(broken, 0, 4);
  printf("%d ", several_add_to(x, y));
  puts(schedlang_error());
  schedlang_set_parallel(0, 0, 0);
  printf("%d\n", several_add_to(x, y));
  printf("%d %s\n", several_twice(x, 0), schedlang_error());
  return 0;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_two_libraries_in_one_program(gemm: Path, several: Path, suffix: str, run_c: Run) -> None:
    """They share the threads, the caller's parallel-for and the text of the error."""
    said = run_c(BOTH, gemm.with_suffix(suffix), several.with_suffix(suffix)).splitlines()
    assert said[0] == "2"
    assert said[1] == "10 a parallel loop ended with the status 5"
    assert said[2] == "0"
    assert said[3] == "1 several_twice: argument 1 is null; it takes B: float32[8]"


PARTS = r"""
#include <limits.h>
#include <stdio.h>
#include "several.h"

static int parts;
static int mine(void *context, int count, int (*task)(void *, int), void *data) {
  (void)context, parts = count;
  for (int i = 0; i < count; ++i)
    if (task(data, i)) return 1;
  return 0;
}

int main(void) {
  int asked[] = {0, 3, 65536, 65537, INT_MAX - 6, INT_MAX};
  for (int i = 0; i < 6; ++i) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    schedlang_set_parallel(mine, 0, asked[i]);
    if (several_add_to(x, y)) return puts(schedlang_error()), 1;
    for (int j = 0; j < 8; ++j)
      if (y[j] != x[j]) return printf("%d: %g at %d\n", asked[i], y[j], j), 1;
    printf("%d ", parts);
  }
  return 0;
}
"""


def test_any_number_of_parts_computes_all(several: Path, run_c: Run) -> None:
    """Beyond what an int holds together with the loop's iterations, nothing was computed."""
    assert run_c(PARTS, several) == "1 3 65536 65536 65536 65536 "


APART = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include HEADER

typedef int (*add)(const float *, float *);
typedef void (*give)(schedlang_for, void *, int);

static int calls;
static schedlang_for inner;
static int counted(void *context, int count, int (*task)(void *, int), void *data) {
  ++calls;
  return inner(context, count, task, data);
}

int main(void) {
  void *one = dlopen(ONE, RTLD_NOW | RTLD_LOCAL), *two = dlopen(TWO, RTLD_NOW | RTLD_LOCAL);
  if (!one || !two) return puts(dlerror()), 1;
  add twice = (add)dlsym(two, "several_add_to");
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
  inner = (schedlang_for)dlsym(one, "schedlang_parallel");
  ((give)dlsym(two, "schedlang_set_parallel"))(counted, 0, 2);
  if (twice(x, y)) return 1;
  printf("%d %g %g\n", calls, y[0], y[7]);
  return 0;
}
"""


def test_libraries_that_are_opened_apart_can_share_threads(
    gemm: Path, several: Path, run_c: Run
) -> None:
    paths = {"ONE": gemm, "TWO": several, "HEADER": several.with_suffix(".h")}
    text = APART
    for word, path in paths.items():
        text = text.replace(word, f'"{path}"')
    assert run_c(text, compiler=("cc", "-std=gnu11"), more="-Wno-pedantic") == "1 1 8\n"


WRONG = r"""
#include <stdio.h>
#include "gemm.h"

static float memory[4 * 64 * 64];
static int64_t shape[] = {64, 64}, other[] = {64, 63}, turned[] = {1, 64}, dense[] = {64, 1};

static schedlang_tensor tensor(float *data) {
  schedlang_tensor made = {data, {1, 0}, 2, {2, 32, 1}, shape, 0, 0};
  return made;
}
#define TELL(call) printf("%d %s\n", call, schedlang_error())

int main(void) {
  float *a = memory, *b = memory + 4096, *c = memory + 3 * 4096;
  schedlang_tensor x = tensor(a), y = tensor(b), z = tensor(c), wrong;
  const schedlang_tensor *all[] = {&x, &y, &z};
  TELL(gemm(a, b, 0));
  TELL(gemm(0, b, c));
  TELL(gemm((float *)((char *)a + 1), b, c));
  TELL(gemm(a, b, b));
  TELL(gemm(a, b, b + 4095));
  TELL(gemm(a, a, c));
  TELL(gemm_tensors(all, 3));
  TELL(gemm_tensors(all, 2));
  TELL(gemm_tensors(0, 3));
  y.strides = dense;
  y.byte_offset = 4;
  TELL(gemm_tensors(all, 3));
#define WITH(change) wrong = tensor(b), all[1] = &wrong, change, TELL(gemm_tensors(all, 3))
  WITH(wrong.shape = other);
  WITH(wrong.ndim = 1);
  WITH(wrong.shape = 0);
  WITH(wrong.strides = turned);
  WITH(wrong.dtype.bits = 64);
  WITH(wrong.dtype.lanes = 2);
  WITH(wrong.dtype.code = 0);
  WITH(wrong.device.device_type = 2);
  WITH(wrong.data = 0);
  WITH(all[1] = 0);
  return 0;
}
"""


def test_wrong_arguments_have_a_status_and_a_text(gemm: Path, run_c: Run) -> None:
    said = [line.partition(" ")[::2] for line in run_c(WRONG, gemm).splitlines()]
    statuses = [int(status) for status, _ in said]
    assert statuses == [1, 1, 6, 7, 7, 0, 0, 2, 1, 0, 4, 4, 4, 4, 3, 3, 3, 5, 1, 1]
    texts = [text for _, text in said]
    assert texts[0] == "gemm: argument 2 is null; it takes C: float32[64, 64]"
    assert texts[2].startswith("gemm: argument 0 is at 0x")
    assert texts[2].endswith("A: float32[64, 64] must be at a multiple of 4 bytes")
    assert texts[3] == "gemm: arguments 2 and 1 share memory, and C: float32[64, 64] is written"
    assert texts[7] == "gemm: it takes 3 tensors, and got 2"
    assert texts[10] == "gemm: argument 1 has another shape; it takes B: float32[64, 64]"
    assert texts[14].startswith("gemm: argument 1 has elements of the type (2, 64 bits, 1 lanes)")
    assert texts[17] == "gemm: argument 1 is not in main memory"
    assert all(text for status, text in said if status != "0")


THREADS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "gemm.h"

static float a[64 * 64], b[64 * 64], right[64 * 64];

static void *call(void *times) {
  static _Thread_local float c[64 * 64];
  for (int i = 0; i < *(int *)times; ++i) {
    memset(c, 0, sizeof c);
    if (gemm(a, b, c) || memcmp(c, right, sizeof c)) return (void *)1;
    if (i % 300 == 0) usleep(300); /* the threads fall asleep */
  }
  return 0;
}

static int all(int threads, int times) {
  pthread_t running[8];
  int failed = 0;
  for (int i = 0; i < threads; ++i) pthread_create(&running[i], 0, call, &times);
  for (int i = 0; i < threads; ++i) {
    void *said;
    pthread_join(running[i], &said);
    failed |= said != 0;
  }
  return failed;
}

int main(void) {
  for (int i = 0; i < 64 * 64; ++i) a[i] = (float)(i % 7), b[i] = (float)(i % 5);
  if (gemm(a, b, right)) return 1;
  for (int count = 1; count < 6; ++count) {
    schedlang_set_threads(count, 50);
    if (all(1, 2000) || all(4, 500)) return printf("wrong with %d threads\n", count), 1;
    pid_t child = fork();
    int status = 1;
    if (!child) _exit(all(2, 500));
    waitpid(child, &status, 0);
    if (status) return printf("wrong in a child, with %d threads\n", count), 1;
  }
  puts("right");
  return 0;
}
"""


def test_many_threads_and_forked_processes(gemm: Path, run_c: Run) -> None:
    assert run_c(THREADS, gemm, compiler=("cc", "-std=gnu11")) == "right\n"
