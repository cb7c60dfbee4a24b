// See tensorboard.h.
#include "engine/report/tensorboard.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "engine/io/checksum.h"
#include "engine/io/file.h"

namespace eng {
namespace {

constexpr const char* kPrefix = "events.out.tfevents.";

void put_bytes(std::string& out, const void* bytes, size_t count) { out.append(static_cast<const char*>(bytes), count); }  // little-endian hosts only, as all of ours

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_text(std::string& out, int field, const std::string& text) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, text.size());
  out += text;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string start_of_event(double wall_time, int64_t step) {
  std::string event;
  put_varint(event, 1 << 3 | 1);
  put_bytes(event, &wall_time, sizeof wall_time);
  put_varint(event, 2 << 3 | 0);
  put_varint(event, static_cast<uint64_t>(step));
  return event;
}

}  // namespace

std::string tensorboard_event(double wall_time, int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string event = start_of_event(wall_time, step), summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_text(value, 1, tag);
    put_varint(value, 2 << 3 | 5);
    const float f = static_cast<float>(number);
    put_bytes(value, &f, sizeof f);
    put_text(summary, 1, value);
  }
  put_text(event, 5, summary);
  return event;
}

std::string tensorboard_record(const std::string& event) {
  const uint64_t length = event.size();
  const uint32_t length_crc = masked(crc32c(&length, sizeof length)), event_crc = masked(crc32c(event.data(), event.size()));
  std::string out;
  put_bytes(out, &length, sizeof length);
  put_bytes(out, &length_crc, sizeof length_crc);
  out += event;
  put_bytes(out, &event_crc, sizeof event_crc);
  return out;
}

Result<std::unique_ptr<TensorBoardLog>> TensorBoardLog::create(const std::string& folder, bool anew) {
  if (anew) {
    ENG_ASSIGN(const std::vector<std::string> names, list_folder(folder));
    for (const std::string& name : names)
      if (name.starts_with(kPrefix) && std::remove(join_path(folder, name).c_str()) != 0) return invalid(join_path(folder, name), ": cannot be removed: ", std::strerror(errno));
  }
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  auto log = std::make_unique<TensorBoardLog>();
  log->path_ = join_path(folder, cat(kPrefix, static_cast<int64_t>(now()), ".", host, ".", ::getpid()));
  log->file_.reset(std::fopen(log->path_.c_str(), "abe"));
  if (!log->file_) return invalid(log->path_, ": cannot be opened for writing: ", std::strerror(errno));
  std::string event = start_of_event(now(), 0);
  put_text(event, 3, "brain.Event:2");
  ENG_TRY(log->record(event));
  return log;
}

Status TensorBoardLog::record(const std::string& event) {
  const std::string framed = tensorboard_record(event);
  if (std::fwrite(framed.data(), 1, framed.size(), file_.get()) != framed.size() || std::fflush(file_.get()) != 0) {
    return invalid(path_, ": cannot be written: ", std::strerror(errno));
  }
  return {};
}

Status TensorBoardLog::write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  return record(tensorboard_event(now(), step, scalars));
}

}  // namespace eng
