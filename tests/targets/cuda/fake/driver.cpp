// A GPU for tests: the functions of libcuda.so.1 and libcudart.so.13 that TVM's CUDA run time and
// schedlang call, on the memory and the clock of this machine. Machine code is what the fake nvcc
// beside this file makes. FAKE_GPU holds settings: "none" (no device), "busy" (fills take
// longer).
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {
cudaError_t broken = cudaSuccess;  // an error that ends the context: every later call returns it
sigjmp_buf back;
volatile sig_atomic_t running = 0;

bool is(const char* what) {
  const char* set = getenv("FAKE_GPU");
  return set != nullptr && strstr(set, what) != nullptr;
}

// The GPU's clock, which stands still between its work: kernels take as long as this thread computes
// them, and fills always the same. What the host does between two events is not the GPU's time, so
// that other processes on this machine do not look like other users of the GPU.
double gpu_seconds = 0;
double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

void on_fault(int number) {
  if (running) siglongjmp(back, number);
  signal(number, SIG_DFL);
  raise(number);
}

struct Module {
  void* library;
};
struct Event {
  double seconds;
};
using Run = void (*)(void (*)(void**), void**, const unsigned*, const unsigned*, unsigned);
struct Function {
  void (*call)(void**);
  Run run;
};
}  // namespace

extern "C" {
// ---- the driver --------------------------------------------------------------------------------
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = is("none") ? 0 : 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  snprintf(name, size, "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 256; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 7; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 5; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 64 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 64 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 16; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == CUDA_ERROR_INVALID_IMAGE ? "CUDA_ERROR_INVALID_IMAGE"
                                              : "CUDA_ERROR_INVALID_VALUE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (memcmp(image, "FAKECUBN", 8) != 0) return CUDA_ERROR_INVALID_IMAGE;
  unsigned long size;
  memcpy(&size, static_cast<const char*>(image) + 8, 8);
  std::string path = (std::filesystem::temp_directory_path() / "fake-cubin-XXXXXX").string();
  int file = mkstemp(path.data());
  if (write(file, static_cast<const char*>(image) + 16, size) != static_cast<long>(size)) abort();
  close(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = reinterpret_cast<CUmodule>(new Module{library});
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  void* library = reinterpret_cast<Module*>(module)->library;
  auto call = reinterpret_cast<void (*)(void**)>(dlsym(library, (std::string(name) + "__call").c_str()));
  auto run = reinterpret_cast<Run>(dlsym(library, "fake_run"));
  if (call == nullptr || run == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(new Function{call, run});
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** args, void**) {
  if (broken != cudaSuccess) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (c->blockDimX * c->blockDimY * c->blockDimZ > 1024) return CUDA_ERROR_INVALID_VALUE;
  auto found = reinterpret_cast<Function*>(function);
  const unsigned grid[] = {c->gridDimX, c->gridDimY, c->gridDimZ};
  const unsigned block[] = {c->blockDimX, c->blockDimY, c->blockDimZ};
  struct sigaction action = {}, old_fault, old_bus;
  action.sa_handler = on_fault;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  static char stack[1 << 16];
  stack_t alternative = {stack, 0, sizeof stack};
  sigaltstack(&alternative, nullptr);
  sigaction(SIGSEGV, &action, &old_fault);
  sigaction(SIGBUS, &action, &old_bus);
  const double before = thread_seconds();
  if (sigsetjmp(back, 1) == 0) {
    running = 1;
    found->run(found->call, args, grid, block, c->sharedMemBytes);
  } else {
    broken = cudaErrorIllegalAddress;  // as on a GPU, the next call tells
  }
  running = 0;
  gpu_seconds += thread_seconds() - before;
  sigaction(SIGSEGV, &old_fault, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- the run time ------------------------------------------------------------------------------
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorInvalidValue";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return broken; }
cudaError_t cudaPeekAtLastError() { return broken; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = is("none") ? 0 : 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return broken;
}
cudaError_t cudaSetDevice(int) { return broken; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = 0;
  cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), 0);
  return broken;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  memset(properties, 0, sizeof *properties);
  return broken;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int) {
  snprintf(text, size, "0000:00:00.0");
  return broken;
}
cudaError_t cudaMemGetInfo(size_t* left, size_t* total) {
  *left = *total = 1ul << 32;
  return broken;
}
cudaError_t cudaMalloc(void** memory, size_t size) {
  if (size > 1ul << 32) return cudaErrorMemoryAllocation;
  *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  return broken;
}
cudaError_t cudaMallocHost(void** memory, size_t size) { return cudaMalloc(memory, size); }
cudaError_t cudaFree(void* memory) {
  free(memory);
  return broken;
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t) {
  if (broken == cudaSuccess) memmove(to, from, size);
  return broken;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t s) {
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, s);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) {
  // A part of what is large: only its address counts, and tests have little time.
  if (broken == cudaSuccess) memset(to, value, size > 1 << 22 ? 1 << 22 : size);
  gpu_seconds += 1e-12 * size;
  if (is("busy") && size > 1 << 22) gpu_seconds += 1e-3;
  return broken;
}
cudaError_t cudaDeviceSynchronize() { return broken; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return broken; }
cudaError_t cudaStreamCreate(cudaStream_t*) { return broken; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return broken; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return broken; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return broken; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new Event{0});
  return broken;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return broken;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  reinterpret_cast<Event*>(event)->seconds = gpu_seconds;
  return broken;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return broken; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  *milliseconds = 1e3 * (reinterpret_cast<Event*>(stop)->seconds - reinterpret_cast<Event*>(start)->seconds);
  return broken;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
}
