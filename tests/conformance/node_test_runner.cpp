// conformance-runner FOLDER: runs ONNX's test cases (see generate.py) on a device and ends with "N passed, N failed, N skipped".
// Every case runs in a process of its own, with a time limit, so a crash or a hang is one failure and not the end of the run.
// stdout: a line a failure ("FAIL name: reason") and the summary; --list-skipped also gives the reasons of the skips, with counts.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "engine/plugin/loader.h"
#include "tests/conformance/node_case.h"

namespace {

using eng::conformance::Case;
using eng::conformance::Outcome;
using eng::conformance::Verdict;

// What a case's process leaves in shared memory.
struct Record {
  bool done;
  int verdict, agree, differ;
  char reason[1200];
};

struct Options {
  std::string folder, device = "cpu:0", backend_path, filter;
  bool list_skipped = false, shapes = false, here = false;
  int jobs = 2, seconds = 60;
};

void run_one(const Case& test, const Options& o, Record& record) {
  eng::DeviceOptions device_options;
  device_options.threads = 1;
  Outcome outcome;
  const auto device = eng::Device::open(o.device, device_options);
  if (!device.ok()) outcome.reason = device.status().message();
  else outcome = o.shapes ? compare_shapes(test, *device) : run_case(test, *device);
  record.verdict = static_cast<int>(outcome.verdict);
  record.agree = outcome.agree;
  record.differ = outcome.differ;
  std::snprintf(record.reason, sizeof record.reason, "%s", outcome.reason.c_str());
  record.done = true;
}

void describe_death(int status, const Options& o, Record& record) {
  record.verdict = static_cast<int>(Verdict::kFailed);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) std::snprintf(record.reason, sizeof record.reason, "still running after %d s", o.seconds);
  else if (WIFSIGNALED(status)) std::snprintf(record.reason, sizeof record.reason, "CRASH: signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else std::snprintf(record.reason, sizeof record.reason, "CRASH: the process ended with status %d", WEXITSTATUS(status));
}

// Runs all cases, `jobs` processes at a time.
void run_all(const std::vector<Case>& cases, const Options& o, Record* records) {
  std::map<pid_t, size_t> running;
  size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    if (next < cases.size() && static_cast<int>(running.size()) < o.jobs) {
      std::fflush(nullptr);
      const pid_t pid = fork();
      if (pid == 0) {
        alarm(static_cast<unsigned>(o.seconds));
        run_one(cases[next], o, records[next]);
        std::fflush(nullptr);
        _exit(0);
      }
      if (pid > 0) running[pid] = next;
      else std::snprintf(records[next].reason, sizeof records[next].reason, "no process could be made for it");
      ++next;
      continue;
    }
    int status = 0;
    const pid_t pid = wait(&status);
    const auto it = running.find(pid);
    if (it == running.end()) continue;
    if (!records[it->second].done || status != 0) describe_death(status, o, records[it->second]);
    running.erase(it);
  }
}

int report(const std::vector<Case>& cases, const Options& o, const Record* records) {
  int counts[3] = {0, 0, 0};
  long agree = 0, differ = 0;
  std::map<std::string, int> skips;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Record& r = records[i];
    ++counts[r.verdict];
    agree += r.agree;
    differ += r.differ;
    if (r.verdict == static_cast<int>(Verdict::kFailed)) std::printf("FAIL %s: %s\n", cases[i].name.c_str(), r.reason);
    if (r.verdict == static_cast<int>(Verdict::kSkipped)) ++skips[r.reason];
  }
  if (o.list_skipped)
    for (const auto& [reason, count] : skips) std::printf("skipped %4d: %s\n", count, reason.c_str());
  if (o.shapes) std::printf("shape inference against ONNX's: %ld values agree, %ld differ\n", agree, differ);
  std::printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  return counts[1] == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Runs ONNX's test cases on a device."};
  app.add_option("FOLDER", o.folder, "folder with cases.json, written by tests/conformance/generate.py")->required();
  app.add_option("--filter", o.filter, "only cases whose name contains this");
  app.add_option("--device", o.device, "device that runs the nodes")->capture_default_str();
  app.add_option("--backend-path", o.backend_path, "plugins and folders of plugins, separated by ':'; else ENGINE_BACKEND_PATH, else beside this program");
  app.add_flag("--list-skipped", o.list_skipped, "print why cases were skipped, with counts");
  app.add_flag("--shapes", o.shapes, "compare shape inference with ONNX's instead of running the nodes");
  app.add_flag("--here", o.here, "no process per case, for a debugger");
  app.add_option("--jobs", o.jobs, "processes at a time")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--timeout", o.seconds, "seconds a case may take")->check(CLI::Range(1, 3600))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (const eng::Status loaded = eng::load_backends_for({o.device}, o.backend_path); !loaded.ok()) {
    std::fprintf(stderr, "error: %s\n", loaded.message().c_str());
    return eng::exit_status(loaded.code());
  }
  eng::Result<std::vector<Case>> all = eng::conformance::read_cases(o.folder);
  if (!all.ok()) {
    std::fprintf(stderr, "error: %s\n", all.status().message().c_str());
    return eng::exit_status(all.status().code());
  }
  std::vector<Case> cases;
  for (Case& test : *all)
    if (test.name.find(o.filter) != std::string::npos) cases.push_back(std::move(test));
  const size_t bytes = (cases.size() + 1) * sizeof(Record);
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("error: mmap");
    return 4;
  }
  Record* records = static_cast<Record*>(shared);
  for (size_t i = 0; i < cases.size(); ++i) records[i].verdict = static_cast<int>(Verdict::kFailed);
  if (o.here)
    for (size_t i = 0; i < cases.size(); ++i) run_one(cases[i], o, records[i]);
  else run_all(cases, o, records);
  return report(cases, o, records);
}
