// Threads of a block as fibres. A fibre takes thread after thread until one stops at a barrier or a warp operation; then another fibre goes on with the
// threads that have not begun, and later each stopped one with its own. A kernel without barriers so needs one fibre a block.
#include "tests/support/cuda_emulation/fibres.h"

#include <sys/mman.h>

#include <random>

#include "tests/support/cuda_emulation/emulation.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the switch between fibres below is written for x86-64: add it for this processor"
#endif

// void eng_emulation_switch(void** save, void* load): leaves the running stack in *save and goes on with the one `load` was saved from.
asm(R"(
.text
.type eng_emulation_switch, @function
.hidden eng_emulation_switch
.globl eng_emulation_switch
eng_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size eng_emulation_switch, .-eng_emulation_switch
)");
extern "C" void eng_emulation_switch(void** save, void* load);

namespace eng_emulation {

thread_local Thread* this_thread = nullptr;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStack = 512 << 10;
#else
constexpr size_t kStack = 128 << 10;
#endif
constexpr size_t kSharedRedZone = 64, kSharedStatic = 48 << 10;
constexpr unsigned char kSharedPattern = 0x5C;

constexpr size_t kGuard = 4096;

struct Fibre {
  char* memory = nullptr;  // kStack bytes above a guard page
  void* stack = nullptr;   // saved stack pointer
  ~Fibre() {
    if (!memory) return;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(memory, kStack);
#endif
    munmap(memory - kGuard, kStack + kGuard);
  }
};

enum class State { kNew, kReady, kBarrier, kWarp, kDone };

struct ThreadState : Thread {
  State state = State::kNew;
  Fibre* fibre = nullptr;
  const char* file = nullptr;
  int line = 0;
  // of the warp operation it waits in
  WarpOperation operation = WarpOperation::kBallot;
  unsigned mask = 0;
  uint64_t value = 0, result = 0;
  int source = 0;
};

struct SharedArray {
  const void* key;
  std::vector<char> bytes;  // with a red zone behind
  bool declared;            // in this block
};

struct BlockRun {
  const std::function<void()>* body = nullptr;
  std::string what;
  std::vector<ThreadState> threads;
  std::vector<uint32_t> order;  // in which threads begin
  size_t begun = 0, done = 0, at_barrier = 0;
  std::vector<uint32_t> ready;  // stopped threads that may go on
  std::vector<SharedArray> shared;
  std::vector<char> dynamic;
  size_t dynamic_bytes = 0;
  bool failed = false, ending = false;
  Fibre scheduler;
  Fibre* running = nullptr;  // null: the scheduler runs
  std::vector<Fibre*> idle;
  std::vector<std::unique_ptr<Fibre>> fibres;
  ~BlockRun();
  // The scheduler's stack, as AddressSanitizer told it.
  void* scheduler_fake = nullptr;
  const void* scheduler_bottom = nullptr;
  size_t scheduler_size = 0;
};
thread_local BlockRun* run = nullptr;

// AddressSanitizer is told of every change of stacks: where it goes just before, that it came just after. `fake` keeps the locals of the stack that is left
// which it watches for use after return; null where the stack is left for good.
#if defined(__SANITIZE_ADDRESS__)
void leaving(void** fake, const void* bottom, size_t size) { __sanitizer_start_switch_fiber(fake, bottom, size); }
void arrived_in_fibre(void* fake) { __sanitizer_finish_switch_fiber(fake, &run->scheduler_bottom, &run->scheduler_size); }
void arrived_in_scheduler() { __sanitizer_finish_switch_fiber(run->scheduler_fake, nullptr, nullptr); }
#else
void leaving(void**, const void*, size_t) {}
void arrived_in_fibre(void*) {}
void arrived_in_scheduler() {}
#endif

void fail(const std::string& text) {
  if (!run->failed) report(run->what + ": " + text);
  run->failed = true;
}

// From the scheduler to a fibre.
void enter(Fibre* fibre) {
  run->running = fibre;
  leaving(&run->scheduler_fake, fibre->memory, kStack);
  eng_emulation_switch(&run->scheduler.stack, fibre->stack);
  arrived_in_scheduler();
  run->running = nullptr;
}

// From a fibre to the scheduler.
void leave() {
  void* fake = nullptr;
  leaving(run->ending ? nullptr : &fake, run->scheduler_bottom, run->scheduler_size);
  eng_emulation_switch(&run->running->stack, run->scheduler.stack);
  arrived_in_fibre(fake);
}

// Fibres that wait for work leave for good, so that AddressSanitizer gives back what it keeps for them. Those that a fault left in the middle cannot.
BlockRun::~BlockRun() {
#if defined(__SANITIZE_ADDRESS__)
  ending = true;
  run = this;
  for (Fibre* fibre : idle) enter(fibre);
#endif
  run = nullptr;
}

uint32_t index_of(const ThreadState& t) { return static_cast<uint32_t>(&t - run->threads.data()); }
ThreadState& current() { return *static_cast<ThreadState*>(this_thread); }

void make_ready(ThreadState& t) {
  t.state = State::kReady;
  run->ready.push_back(index_of(t));
}

// Lets all go on once every thread that has not returned is there.
void release_barrier() {
  if (run->at_barrier == 0 || run->at_barrier + run->done < run->threads.size()) return;
  const ThreadState* first = nullptr;
  for (ThreadState& t : run->threads) {
    if (t.state != State::kBarrier) continue;
    if (first && (first->line != t.line || std::strcmp(first->file, t.file) != 0))
      fail("threads of one block wait at different __syncthreads, lines " + std::to_string(first->line) + " and " + std::to_string(t.line));
    first = &t;
    make_ready(t);
  }
  run->at_barrier = 0;
}

// Ends the warp operation with that mask once all its lanes that have not returned are there.
void release_warp(uint32_t base, unsigned mask) {
  const uint32_t lanes = std::min<uint32_t>(32, static_cast<uint32_t>(run->threads.size()) - base);
  const auto takes_part = [&](uint32_t i) { return (mask >> i & 1) && run->threads[base + i].state != State::kDone; };
  unsigned ballot = 0;
  for (uint32_t i = 0; i < lanes; ++i) {
    if (!takes_part(i)) continue;
    const ThreadState& t = run->threads[base + i];
    if (t.state != State::kWarp || t.mask != mask) return;
    if (t.operation == WarpOperation::kBallot && t.value) ballot |= 1u << i;
  }
  for (uint32_t i = 0; i < lanes; ++i) {
    if (!takes_part(i)) continue;
    ThreadState& t = run->threads[base + i];
    const bool source = static_cast<uint32_t>(t.source) < lanes && takes_part(static_cast<uint32_t>(t.source));
    t.result = t.operation == WarpOperation::kBallot ? ballot : source ? run->threads[base + static_cast<uint32_t>(t.source)].value : 0x7FFB7FFB7FFB7FFBu;
    make_ready(t);
  }
}

void finish(ThreadState& t) {
  t.state = State::kDone;
  ++run->done;
  release_barrier();
  const uint32_t base = index_of(t) / 32 * 32;
  for (uint32_t i = base; i < base + 32 && i < run->threads.size(); ++i)
    if (run->threads[i].state == State::kWarp) release_warp(base, run->threads[i].mask);
}

void stop_here() {
  current().fibre = run->running;
  leave();
}

[[noreturn]] void fibre_main() {
  arrived_in_fibre(nullptr);
  for (;;) {
    while (!run->ending && run->begun < run->threads.size()) {
      ThreadState& t = run->threads[run->order[run->begun++]];
      this_thread = &t;
      t.state = State::kReady;
      (*run->body)();
      finish(current());
    }
    if (!run->ending) run->idle.push_back(run->running);
    leave();
  }
}

Fibre* fresh_fibre() {
  if (!run->idle.empty()) {
    Fibre* fibre = run->idle.back();
    run->idle.pop_back();
    return fibre;
  }
  auto fibre = std::make_unique<Fibre>();
  void* memory = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  mprotect(memory, kGuard, PROT_NONE);
  fibre->memory = static_cast<char*>(memory) + kGuard;
  // As eng_emulation_switch leaves a stack: six registers, then where to return to; one more word so that fibre_main finds the alignment of a call.
  void** top = reinterpret_cast<void**>(fibre->memory + kStack) - 8;
  std::fill(top, top + 8, nullptr);
  top[6] = reinterpret_cast<void*>(&fibre_main);
  fibre->stack = top;
  run->fibres.push_back(std::move(fibre));
  return run->fibres.back().get();
}

void describe_deadlock() {
  std::string text = "the block cannot go on: threads wait for each other:";
  for (const char* kind : {"__syncthreads", "a warp operation"})
    for (const ThreadState& t : run->threads)
      if (t.state == (kind[0] == '_' ? State::kBarrier : State::kWarp)) {
        text += " thread " + std::to_string(index_of(t)) + " in " + kind + " at line " + std::to_string(t.line) + ";";
        break;
      }
  fail(text);
}

bool run_block(uint3 block, const LaunchShape& shape, uint64_t seed) {
  run->begun = run->done = run->at_barrier = 0;
  run->ready.clear();
  for (SharedArray& a : run->shared) a.declared = false;
  std::fill(run->dynamic.begin(), run->dynamic.end(), kSharedPattern);
  uint32_t i = 0;
  for (uint32_t z = 0; z < shape.block.z; ++z)
    for (uint32_t y = 0; y < shape.block.y; ++y)
      for (uint32_t x = 0; x < shape.block.x; ++x, ++i) {
        ThreadState& t = run->threads[i];
        t.thread = {x, y, z}, t.block = block, t.block_size = shape.block, t.grid_size = shape.grid;
        t.state = State::kNew;
      }
  while (run->done < run->threads.size() && !run->failed) {
    if (run->begun < run->threads.size()) {
      Fibre* fibre = fresh_fibre();
      if (!fibre) return fail("no memory for the stacks of a block"), false;
      enter(fibre);
    } else if (!run->ready.empty()) {
      const size_t at = seed & 1 ? run->ready.size() - 1 : 0;
      ThreadState& t = run->threads[run->ready[at]];
      run->ready.erase(run->ready.begin() + static_cast<ptrdiff_t>(at));
      this_thread = &t;
      enter(t.fibre);
    } else {
      describe_deadlock();
    }
  }
  for (const SharedArray& a : run->shared)
    for (size_t k = a.bytes.size() - kSharedRedZone; a.declared && k < a.bytes.size(); ++k)
      if (static_cast<unsigned char>(a.bytes[k]) != kSharedPattern) return fail("wrote past the end of a shared array of " + std::to_string(a.bytes.size() - kSharedRedZone) + " bytes"), false;
  for (size_t k = run->dynamic_bytes; k < run->dynamic.size(); ++k)
    if (static_cast<unsigned char>(run->dynamic[k]) != kSharedPattern) return fail("wrote past the end of its dynamic shared memory of " + std::to_string(run->dynamic_bytes) + " bytes"), false;
  return !run->failed;
}

}  // namespace

bool run_blocks(const LaunchShape& shape, const std::function<void()>& body, uint64_t seed, const std::string& what) {
  // Kept from launch to launch for its stacks. A launch that ended in a fault left its fibres in the middle: they are not used again.
  static thread_local std::unique_ptr<BlockRun> kept;
  static thread_local bool clean = false;
  if (!clean) kept = std::make_unique<BlockRun>();
  clean = false;
  run = kept.get();
  run->body = &body;
  run->what = what;
  run->failed = false;
  run->shared.clear();
  run->dynamic_bytes = shape.shared;
  run->dynamic.assign(shape.shared + kSharedRedZone, 0);
  const uint32_t count = shape.block.x * shape.block.y * shape.block.z;
  run->threads.assign(count, {});
  run->order.resize(count);
  for (uint32_t i = 0; i < count; ++i) run->order[i] = seed & 2 ? count - 1 - i : i;
  if (seed & 4) std::shuffle(run->order.begin(), run->order.end(), std::mt19937_64(seed));
  const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t at = seed & 8 ? blocks - 1 - b : b;
    const uint3 block = {static_cast<unsigned>(at % shape.grid.x), static_cast<unsigned>(at / shape.grid.x % shape.grid.y), static_cast<unsigned>(at / shape.grid.x / shape.grid.y)};
    if (!run_block(block, shape, seed >> 4)) return false;
  }
  clean = true;
  return true;
}

void back_after_fault([[maybe_unused]] void* frame) {
  if (!run || !run->running) return;
  leaving(nullptr, run->scheduler_bottom, run->scheduler_size);
  arrived_in_scheduler();
  run->running = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  auto* low = static_cast<char*>(run->scheduler.stack);  // the frames that the jump left
  __asan_unpoison_memory_region(low, static_cast<size_t>(static_cast<char*>(frame) - low));
#endif
}

void* shared_memory(const void* key, size_t bytes) {
  SharedArray* found = nullptr;
  size_t all = bytes;
  for (SharedArray& a : run->shared) {
    if (a.key == key) found = &a;
    else all += a.bytes.size() - kSharedRedZone;
  }
  if (!found) {
    if (all > kSharedStatic) fail("declares more than 48 KiB of shared memory: " + std::to_string(all) + " bytes");
    run->shared.push_back({key, std::vector<char>(bytes + kSharedRedZone), false});
    found = &run->shared.back();
  }
  if (!found->declared) {  // what a block finds there is anything
    std::fill(found->bytes.begin(), found->bytes.end(), kSharedPattern);
    const uint32_t poison = 0x7FFB7FFB;
    for (size_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(found->bytes.data() + i, &poison, 4);
    found->declared = true;
  }
  return found->bytes.data();
}

void* dynamic_shared_memory() { return run->dynamic.data(); }

void sync_threads(const char* file, int line) {
  ThreadState& t = current();
  t.state = State::kBarrier;
  t.file = file, t.line = line;
  ++run->at_barrier;
  release_barrier();
  stop_here();
}

uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, int source, const char* file, int line) {
  ThreadState& t = current();
  const uint32_t base = index_of(t) / 32 * 32;
  if (!(mask >> (index_of(t) % 32) & 1)) fail("line " + std::to_string(line) + ": the mask of a warp operation does not hold the lane that calls");
  t.state = State::kWarp;
  t.file = file, t.line = line;
  t.operation = operation, t.mask = mask, t.value = value, t.source = source;
  release_warp(base, mask);
  stop_here();
  return current().result;
}

unsigned active_mask() { return 1u << lane(); }  // divergence has no defined form: a lane is sure of itself only
int lane() { return static_cast<int>(index_of(current()) % 32); }

}  // namespace eng_emulation
