// See nccl_board.h.
#include "tests/support/cuda_emulation/nccl_board.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace eng_emulation {

namespace fs = std::filesystem;

namespace {

// Whole files appear at once under their names.
void write_whole(const std::string& path, const std::string& head, const std::vector<char>& bytes) {
  const std::string unfinished = path + ".unfinished" + std::to_string(getpid());
  std::ofstream out(unfinished, std::ios::binary);
  out << head << '\n';
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code ignored;
  fs::rename(unfinished, path, ignored);
}

std::shared_ptr<const Contribution> read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return nullptr;
  auto c = std::make_shared<Contribution>();
  std::getline(in, c->signature);
  c->bytes.assign(std::istreambuf_iterator<char>(in), {});
  return c;
}

}  // namespace

std::string Board::file(uint64_t number, int rank) const { return folder_ + "/" + std::to_string(number) + "." + std::to_string(rank); }

void Board::post(uint64_t number, int rank, Contribution contribution) {
  auto& posts = posts_[number];
  posts.resize(static_cast<size_t>(count_));
  if (!folder_.empty()) write_whole(file(number, rank), contribution.signature, contribution.bytes);
  posts[static_cast<size_t>(rank)] = std::make_shared<const Contribution>(std::move(contribution));
}

bool Board::complete(uint64_t number) {
  auto& posts = posts_[number];
  posts.resize(static_cast<size_t>(count_));
  bool all = true;
  for (int rank = 0; rank < count_; ++rank) {
    auto& post = posts[static_cast<size_t>(rank)];
    if (!post && !folder_.empty() && !local_.count(rank)) post = read_whole(file(number, rank));
    all = all && post;
  }
  return all;
}

void Board::finished(uint64_t number, int rank) {
  // All have posted this one, so all have read the one before.
  if (!folder_.empty() && number > 0) {
    std::error_code ignored;
    fs::remove(file(number - 1, rank), ignored);
  }
  auto& done = finished_[number];
  done.insert(rank);
  if (done.size() < local_.size()) return;
  posts_.erase(number);
  finished_.erase(number);
  callers_.erase(number);
}

void Board::leave(int rank) {
  if (folder_.empty()) return;
  leave_note(folder_, "gone." + std::to_string(rank), "gone");
  for (int other = 0; other < count_; ++other)
    if (read_note(folder_, "gone." + std::to_string(other)).empty()) return;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

bool Board::alone_in_thread(uint64_t number, int rank) {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t mine = ++threads;  // std::thread::id is given again after a thread's end
  auto& callers = callers_[number];
  const bool alone = std::none_of(callers.begin(), callers.end(), [&](const auto& c) { return c.first != rank && c.second == mine; });
  callers[rank] = mine;
  return alone;
}

std::string new_board_name() {
  std::random_device device;
  return "cuda-emulation-" + std::to_string(getpid()) + "-" + std::to_string(device()) + "-" + std::to_string(device());
}

std::string board_folder(const std::string& name) {
  const char* base = std::getenv("CUDA_EMULATION_FOLDER");
  std::error_code ignored;
  const fs::path folder = (base && *base ? fs::path(base) : fs::temp_directory_path(ignored)) / name;
  fs::create_directories(folder, ignored);
  return folder.string();
}

bool leave_note(const std::string& folder, const std::string& key, const std::string& text) {
  const std::string path = folder + "/" + key;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return false;
  write_whole(path, text, {});
  return true;
}

std::string read_note(const std::string& folder, const std::string& key) {
  const auto found = read_whole(folder + "/" + key);
  return found ? found->signature : "";
}

}  // namespace eng_emulation
