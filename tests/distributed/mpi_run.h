// ranks-probe (ranks_probe.cpp) run through mpirun: on this host, or on "several hosts" that are network namespaces of this machine.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/distributed/liveness.h"
#include "tests/support/temp_folder.h"

namespace eng::test {

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// A process of mine, with what it printed. The destructor leaves nothing running.
class MpiRun {
 public:
  // Words of a command line; `settings` are NAME=VALUE.
  MpiRun(const std::string& launcher, int ranks, const std::string& words, const std::string& settings = "") {
    const std::string probe = std::string(std::getenv("ENGINE_BIN")) + "/ranks-probe";
    // A folder of its own for mpirun's files: two that start at once trip over each other when they make the same one in /tmp.
    start("exec env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base='" + folder_.path() + "' " + settings + " " + launcher + " -n " + std::to_string(ranks) + " '" + probe + "' " + words);
  }
  // Any command.
  explicit MpiRun(const std::string& command) { start(command); }
  ~MpiRun() {
    if (child_ > 0) kill(child_, SIGKILL), waitpid(child_, nullptr, 0);
    for (const auto& [rank, pid] : pids()) kill_rank(pid, SIGKILL);
  }
  MpiRun(const MpiRun&) = delete;
  MpiRun& operator=(const MpiRun&) = delete;

  std::string out() const { return read_text(folder_ / "out.txt"); }
  std::string err() const { return read_text(folder_ / "err.txt"); }
  pid_t launcher() const { return child_; }

  // The processes that have said "rank R pid P"; waits until there are `count`.
  std::map<int, int> wait_for_ranks(size_t count) {
    for (int tries = 0; tries < 1000 && pids().size() < count; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return pids();
  }
  void kill_rank(int pid, int signal) const {
    if (!look_up_process(pid, start_times_.count(pid) ? start_times_.at(pid) : 0).gone) kill(pid, signal);
  }
  // Waits for the end: exit status (128 + signal if killed), or -1 after `limit` seconds.
  int finish(double limit) {
    const auto start = std::chrono::steady_clock::now();
    int status = 0;
    while (waitpid(child_, &status, WNOHANG) == 0) {
      pids();
      seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (seconds_ > limit) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  double seconds() const { return seconds_; }
  // Whether every rank is gone, at most `limit` seconds from now.
  bool no_orphans(double limit) {
    for (double waited = 0; waited <= limit; waited += 0.02) {
      bool any = false;
      for (const auto& [rank, pid] : pids()) any = any || !look_up_process(pid, start_times_[pid]).gone;
      if (!any) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

 private:
  void start(const std::string& command) {
    const std::string out = folder_ / "out.txt", err = folder_ / "err.txt";
    child_ = fork();
    if (child_ == 0) {
      dup2(open("/dev/null", O_RDONLY), 0);
      dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  std::map<int, int> pids() {
    std::map<int, int> found;
    std::ifstream in(folder_ / "out.txt");
    for (std::string line; std::getline(in, line);) {
      int rank = 0, pid = 0;
      if (std::sscanf(line.c_str(), "rank %d pid %d", &rank, &pid) != 2) continue;
      found[rank] = pid;
      if (!start_times_.count(pid)) start_times_[pid] = process_start_time(pid);
    }
    return found;
  }

  TempFolder folder_;
  pid_t child_ = -1;
  double seconds_ = 0;
  std::map<int, uint64_t> start_times_;
};

inline const std::string kOneHost = "mpirun --oversubscribe --bind-to none";

// "Hosts" 10.77.0.1 to .N: network namespaces joined by a bridge. Needs root and iproute2; ok() says whether that worked.
class HostNamespaces {
 public:
  explicit HostNamespaces(int count) {
    const std::string id = std::to_string(getpid() % 100000);
    bridge_ = "eb" + id;
    prefix_ = "eng" + id + "h";
    count_ = count;
    ok_ = run("ip link add " + bridge_ + " type bridge && ip link set " + bridge_ + " up");
    for (int h = 1; ok_ && h <= count; ++h) {
      const std::string n = std::to_string(h), space = prefix_ + n, cable = "ev" + id + n;
      ok_ = run("ip netns add " + space + " && ip link add " + cable + " type veth peer name eth0 netns " + space + " && ip link set " + cable + " master " + bridge_ +
                " up && ip -n " + space + " addr add 10.77.0." + n + "/24 dev eth0 && ip -n " + space + " link set eth0 up && ip -n " + space + " link set lo up");
    }
    std::ofstream agent(folder_ / "agent.sh");  // in the place of ssh: agent.sh HOST COMMAND
    agent << "#!/bin/sh\nhost=${1#10.77.0.}\nshift\nexec ip netns exec \"" << prefix_ << "$host\" unshare --uts sh -c \"hostname node$host; $*\"\n";
    agent.close();
    ok_ = ok_ && run("chmod +x '" + (folder_ / "agent.sh") + "' && '" + (folder_ / "agent.sh") + "' 10.77.0.1 true");
  }
  ~HostNamespaces() {
    for (int h = 1; h <= count_; ++h) run("ip netns del " + prefix_ + std::to_string(h));
    run("ip link del " + bridge_);
  }
  HostNamespaces(const HostNamespaces&) = delete;
  HostNamespaces& operator=(const HostNamespaces&) = delete;
  bool ok() const { return ok_; }
  // mpirun on host 1; `slots[i]` ranks on host i + 1.
  std::string launcher(const std::vector<int>& slots) const {
    std::string hosts;
    for (size_t i = 0; i < slots.size(); ++i) hosts += (i ? "," : "") + ("10.77.0." + std::to_string(i + 1)) + ":" + std::to_string(slots[i]);
    return "ip netns exec " + prefix_ + "1 unshare --uts sh -c 'hostname node1; exec \"$@\"' sh " + kOneHost + " --host " + hosts + " --mca plm_rsh_agent '" + agent_path() + "'";
  }

 private:
  static bool run(const std::string& command) { return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0; }
  std::string agent_path() const { return folder_.path() + "/agent.sh"; }

  TempFolder folder_;
  std::string bridge_, prefix_;
  int count_ = 0;
  bool ok_ = false;
};

}  // namespace eng::test
