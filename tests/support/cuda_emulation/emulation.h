// The test's side of the CUDA emulation: what machine it plays, in which order it runs work, and what it caught. See README.md.
// All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace eng_emulation {

enum class Order {
  kLazy,    // work runs when somebody waits for it, and then only what it needs; the rest stays undone as long as possible
  kRandom,  // when somebody waits, streams that may run take turns by the seed
  kEager    // work runs soon after it was enqueued, oldest first: the order in which few mistakes show
};

struct Settings {
  int devices = 2;
  std::vector<int> visible;         // which ones of a machine with more they are; empty: its first ones
  size_t memory = size_t{2} << 30;  // bytes a device
  int major = 9, minor = 0;         // compute capability
  int driver = -1;                  // CUDA version that the driver supports, such as 12040; 0: no driver; -1: the toolkit's
  std::string missing;              // libraries that cannot be loaded: "cuBLAS,cuDNN,NCCL"
  std::string unsupported;          // functions of cuDNN that answer CUDNN_STATUS_NOT_SUPPORTED: "cudnnPoolingForward,cudnnSoftmaxForward"
  bool peers = true;                // devices can access each other
  Order order = Order::kLazy;
  uint64_t seed = 1;
  int grace_ms = 50;                // work nobody waits for begins after that pause
  int hang_seconds = 60;            // a wait without progress ends with cudaErrorLaunchTimeout and a violation
  long fail_allocation = 0;         // the K-th cudaMalloc from now is out of memory
  long fail_operation = 0;          // the K-th operation that runs fails: cudaErrorLaunchFailure, and the device is lost
  long hang_operation = 0;          // the K-th operation that would run never does
};

// The settings of the environment: CUDA_VISIBLE_DEVICES (numbers), CUDA_EMULATION_DEVICES, _MEMORY (bytes), _CAPABILITY (90: 9.0), _DRIVER, _MISSING, _UNSUPPORTED, _PEERS, _ORDER (lazy, random, eager), _SEED, _GRACE_MS,
// _HANG_SECONDS, _FAIL_ALLOCATION, _FAIL_OPERATION, _HANG_OPERATION. They hold until the first reset.
Settings settings_of_environment();

// Whether `missing` names the library. A plugin asks once in a process.
bool is_missing(const std::string& library);

// Waits for pending work, forgets violations, lost devices and counters, and plays another machine. Device pointers and handles of before are dead.
void reset(const Settings& settings = {});

// What was done wrong since the last reset, oldest first. Each is also written to stderr, to the file CUDA_EMULATION_REPORT names, and, with
// CUDA_EMULATION_ABORT=1, ends the process. Leaks are not among them.
std::vector<std::string> violations();
void clear_violations();

// What is alive, a line each, with where it came from: memory, streams, events, handles, descriptors, communicators. Written to stderr and to the report at exit.
std::vector<std::string> leaks();

struct Counts {
  size_t device_blocks, device_bytes, pinned_blocks, streams, events, handles, descriptors, communicators;
  size_t pending;              // operations enqueued and not run
  uint64_t operations, kernels;  // run since the last reset
};
Counts counts();

// Puts a violation in the list: for checks that tests add.
void report(const std::string& text);

}  // namespace eng_emulation
