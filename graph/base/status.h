// Errors as values. A Status is fine or carries a code and one message for a person: what, where (file, node, tensor),
// got, wanted, what to do. Result<T> is a T or a Status. Nothing in this project throws across a function boundary;
// code that calls a throwing library catches at the call. Also here: cat(), which glues values to a string.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace eng {

// Each code leads to one exit status of the commands (see exit_status).
enum class Code : int32_t {
  kOk = 0,
  kUsage,        // wrong command line                               -> 2
  kInvalid,      // bad model, picture, checkpoint, plan             -> 3
  kUnsupported,  // well formed, but something that is not there yet -> 3
  kNotFound,     // a file, a name                                   -> 3
  kDevice,       // backend or device failure, out of memory         -> 4
  kStopped,      // a signal asked to stop; state was saved          -> 5
  kInternal,     // our own bug                                      -> 4
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // The same error with "where: " in front; a fine status stays fine.
  Status in(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline int exit_status(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kUsage: return 2;
    case Code::kInvalid:
    case Code::kUnsupported:
    case Code::kNotFound: return 3;
    case Code::kDevice:
    case Code::kInternal: return 4;
    case Code::kStopped: return 5;
  }
  return 4;
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}             // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}     // NOLINT: implicit on purpose; must be an error
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

inline void append_text(std::ostringstream& out, const std::vector<int64_t>& shape) {
  out << '[';
  for (size_t i = 0; i < shape.size(); ++i) out << (i ? "," : "") << shape[i];
  out << ']';
}
template <class T>
void append_text(std::ostringstream& out, const T& value) {
  out << value;
}
// cat("conv ", 3, " of ", shape): streams every argument; shapes print as [2,3].
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (append_text(out, args), ...);
  return out.str();
}

template <class... Args>
Status invalid(const Args&... args) { return Status(Code::kInvalid, cat(args...)); }
template <class... Args>
Status unsupported(const Args&... args) { return Status(Code::kUnsupported, cat(args...)); }
template <class... Args>
Status usage_error(const Args&... args) { return Status(Code::kUsage, cat(args...)); }
template <class... Args>
Status not_found(const Args&... args) { return Status(Code::kNotFound, cat(args...)); }
template <class... Args>
Status device_error(const Args&... args) { return Status(Code::kDevice, cat(args...)); }
template <class... Args>
Status internal_error(const Args&... args) { return Status(Code::kInternal, cat("internal error: ", args...)); }

}  // namespace eng

#define ENG_JOIN2(a, b) a##b
#define ENG_JOIN(a, b) ENG_JOIN2(a, b)
// ENG_TRY(f()): returns f's error from the enclosing function.
#define ENG_TRY(expr)                          \
  do {                                         \
    ::eng::Status eng_status_ = (expr);        \
    if (!eng_status_.ok()) return eng_status_; \
  } while (0)
// ENG_ASSIGN(auto x, f()): x is f's value, or f's error is returned.
#define ENG_ASSIGN(declaration, expr) ENG_ASSIGN_IMPL(ENG_JOIN(eng_result_, __LINE__), declaration, expr)
#define ENG_ASSIGN_IMPL(name, declaration, expr) \
  auto name = (expr);                            \
  if (!name.ok()) return name.status();          \
  declaration = std::move(name.value())
