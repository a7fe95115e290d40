// Reads a job, runs its launches in each order, and writes the arguments as they are then.
//
// Arguments: the files of the job, of the initial contents of all buffers, of the results, and of the
// faults. Numbers and names of a job stand in lines; see execute.py, which writes them.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sys/resource.h>
#include <unistd.h>

#include "scheduler.h"

namespace {

constexpr int MOST_FAULTS = 3;  // of one sort in one kernel and order
FILE* faults;
std::map<std::string, int> seen;

std::string kernel_name() { return running.launch ? running.launch->kernel : "-"; }

void write_fault(const char* kind, const std::string& message) {
  std::fprintf(faults, "%s\t%s\t%d\t%s\n", kind, kernel_name().c_str(), running.order,
               message.c_str());
  std::fflush(faults);
}

void on_signal(int number) {
  if (number == SIGXCPU) write_fault("timeout", "it takes longer than the limit of CPU time");
  else
    write_fault("crash", std::string("signal ") + strsignal(number) +
                             (running.fiber ? " in " + thread_text(access_now().thread) : ""));
  _exit(3);
}

void catch_signals(long seconds) {
  static char stack[1 << 16];
  stack_t own = {};
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  sigaltstack(&own, nullptr);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU}) {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(number, &action, nullptr);
  }
  struct rlimit limit = {rlim_t(seconds), rlim_t(seconds + 1)};
  setrlimit(RLIMIT_CPU, &limit);
}

emu_call find_kernel(const std::string& name) {
  for (const emu_kernel* one = emu_kernels; one->name; ++one)
    if (name == one->name) return one->call;
  fail("crash", "the source has no kernel " + name);
}

// Where a buffer starts: a multiple of 256, as CUDA allocates it, behind a guard.
size_t next_start(size_t end) { return (end + GUARD_BYTES + 255) / 256 * 256; }

}  // namespace

void report(const char* kind, const std::string& message) {
  // A race's message starts with the memory and the sort of race, for counting.
  size_t bar = message.rfind('|');
  std::string sort = kind + kernel_name() + std::to_string(running.order) + message.substr(0, bar + 1);
  if (++seen[sort] <= MOST_FAULTS) write_fault(kind, message.substr(bar + 1));
}

void fail(const char* kind, const std::string& message) {
  write_fault(kind, message);
  _exit(2);
}

int main(int, char** arguments) {
  std::ifstream job(arguments[1]), data(arguments[2], std::ios::binary);
  std::ofstream results(arguments[3], std::ios::binary);
  faults = std::fopen(arguments[4], "w");
  long seconds;
  int orders, buffer_count, result_count, launch_count;
  uint64_t seed;
  job >> seconds >> orders >> seed >> buffer_count >> result_count >> launch_count;
  catch_signals(seconds);

  std::vector<size_t> starts;
  size_t end = 0;
  for (int n = 0; n < buffer_count; ++n) {
    Region region;
    job >> region.name >> region.unit >> region.bytes;
    starts.push_back(next_start(end));
    end = starts.back() + region.bytes;
    global_memory.regions.push_back(region);
  }
  global_memory.bytes = next_start(end);
  global_memory.start = map_memory(global_memory.bytes);
  for (int n = 0; n < buffer_count; ++n) {
    Region& region = global_memory.regions[n];
    region.start = global_memory.start + starts[n];
    region.places = (Place*)map_memory(sizeof(Place) * (region.bytes / region.unit + 1));
  }
  shared_memory.shared = true;
  shared_memory.bytes = SHARED_BYTES;
  shared_memory.start = map_memory(SHARED_BYTES);

  std::vector<Launch> launches(launch_count);
  std::vector<long long> numbers(64 * launch_count);
  size_t used = 0;
  for (Launch& launch : launches) {
    int count;
    job >> launch.kernel;
    for (unsigned& extent : launch.grid) job >> extent;
    for (unsigned& extent : launch.block) job >> extent;
    job >> launch.dynamic_bytes >> count;
    launch.call = find_kernel(launch.kernel);
    for (int n = 0; n < count; ++n) {
      char sort;
      long long value;
      job >> sort >> value;
      if (sort == 'b') {
        launch.arguments.push_back(global_memory.regions[value].start);
      } else {
        numbers[used] = value;
        launch.arguments.push_back(&numbers[used++]);
      }
    }
  }

  for (running.order = 0; running.order < orders; ++running.order) {
    data.clear();
    data.seekg(0);
    fill_unwritten(global_memory.start, global_memory.bytes);
    for (Region& region : global_memory.regions) data.read(region.start, region.bytes);
    for (size_t n = 0; n < launches.size(); ++n)
      run_launch(launches[n], seed + running.order * 1000003 + n);
    for (int n = 0; n < result_count; ++n)
      results.write(global_memory.regions[n].start, global_memory.regions[n].bytes);
    results.flush();
  }
  running.launch = nullptr;
  if (running.atomics) write_fault("note", "atomics");
  return 0;
}
