// Reads a model in a process of its own and says how it ended: for hostile fixtures, which must end in a named error within two
// seconds and 512 MB (memory is not judged in sanitizer builds, time is judged loosely there).
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "importers/onnx/import.h"
#include "tests/importers/onnx_proto.h"

namespace eng::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct Outcome {
  bool crashed = false, accepted = false;
  std::string message;
  double seconds = 0;
  long megabytes = 0;
};

// Imports in a forked process, so that a crash is a failed check and memory is measured for this file alone.
inline Outcome read_apart(const std::function<Result<Graph>()>& import) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    auto result = import();
    std::string text = result.ok() ? "+" : "-" + result.status().message();
    if (text.size() > 60000) text.resize(60000);
    const ssize_t n = write(ends[1], text.data(), text.size());
    _exit(n == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  struct rusage usage;
  wait4(child, &status, 0, &usage);
  Outcome out;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out.megabytes = usage.ru_maxrss / 1024;
  out.crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty();
  out.accepted = !out.crashed && text[0] == '+';
  if (!text.empty()) out.message = text.substr(1);
  return out;
}

inline void check_limits(const Outcome& o) {
  CHECK_FALSE(o.crashed);
  CHECK(o.seconds < (kSanitized ? 20 : 2));
  if (!kSanitized) CHECK(o.megabytes < 512);
}

inline void refused(const Outcome& o, const std::string& wanted) {
  CAPTURE(o.message.substr(0, 400));
  check_limits(o);
  CHECK_FALSE(o.accepted);
  CHECK_MESSAGE(o.message.find(wanted) != std::string::npos, "wanted in the message: ", wanted);
}

inline Outcome read_bytes(const std::string& bytes) {
  return read_apart([&] { return import_onnx_bytes(bytes.data(), bytes.size(), ""); });
}
inline Outcome read_model(const ModelProto& m) { return read_bytes(m.SerializeAsString()); }
inline Outcome read_path(const std::string& path, const ImportOptions& options = {}) {
  return read_apart([&] { return import_onnx(path, options); });
}

// A protobuf field that holds `content`: tag, length, content.
inline std::string wrapped(const std::string& tag, const std::string& content) {
  std::string out = tag;
  for (uint64_t n = content.size();; n >>= 7) {
    out += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
    if (n <= 127) break;
  }
  return out + content;
}

}  // namespace eng::test
