// See ranks.h. Here: the single rank, and the choice between it and MPI.
#include "engine/distributed/ranks.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "engine/distributed/launch.h"
#include "engine/distributed/mpi_ranks.h"
#include "engine/io/file.h"

namespace eng {
namespace {

class SingleRank final : public Ranks {
 public:
  SingleRank() {
    char name[256] = {};
    host_ = gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  const std::string& host() const override { return host_; }
  const std::string& host_of(int) const override { return host_; }

  int64_t post_send(int, int, const void*, uint64_t) override { return -1; }
  int64_t post_receive(int, int, void*, uint64_t) override { return -1; }
  bool done(int64_t) override { return false; }
  Status wait(int64_t) override { return internal_error("a transfer was posted in a run of one rank"); }
  Result<int64_t> wait_any(std::span<const int64_t> tickets, std::chrono::microseconds timeout) override {
    if (!tickets.empty()) return wait(tickets[0]);
    std::this_thread::sleep_for(timeout);
    return static_cast<int64_t>(-1);
  }
  Status health() override { return {}; }

  Status gather_all(const void* mine, uint64_t bytes, void* all) override {
    if (bytes) std::memcpy(all, mine, bytes);
    return {};
  }
  Status broadcast(void*, uint64_t, int root) override {
    return root == 0 ? Status() : internal_error("broadcast from rank ", root, " in a run of one rank");
  }
  Status barrier() override { return {}; }
  void set_step(int64_t) override {}
  void set_note(const std::string&) override {}

  [[noreturn]] void fail(const Status& status) override {
    std::fprintf(stderr, "%s: %s\n", status.code() == Code::kStopped ? "stopped" : "error", for_terminal(status.message()).c_str());
    std::fflush(nullptr);
    _exit(exit_status(status.code()));
  }

 private:
  std::string host_;
};

}  // namespace

std::shared_ptr<Ranks> Ranks::alone() { return std::make_shared<SingleRank>(); }

Result<std::shared_ptr<Ranks>> Ranks::start(const RankOptions& options) {
  ENG_ASSIGN(const Launch launch, read_launch());
  if (!launch.mpi) return std::shared_ptr<Ranks>(std::make_shared<SingleRank>());
  RankOptions o = options;
  ENG_ASSIGN(o.silence, read_silence(options.silence));
  ENG_ASSIGN(o.start, read_start(options.start));
  return MpiRanks::start(o, launch.expected, launch.from);
}

}  // namespace eng
