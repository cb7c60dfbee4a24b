// Where the ranks of a communicator put what they give to a collective, and read what the others gave. Ranks in one process meet in memory, those of several in
// a folder of files, below CUDA_EMULATION_FOLDER or the system's temporary folder. All functions want the world's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace eng_emulation {

struct Contribution {
  std::string signature;  // operation, type, count...: the same on all ranks
  std::vector<char> bytes;
};

class Board {
 public:
  // folder "": all ranks are in this process.
  Board(int count, std::string folder) : count_(count), folder_(std::move(folder)) {}

  void join(int rank) { local_.insert(rank); }
  void post(uint64_t number, int rank, Contribution contribution);
  // Whether all ranks have posted.
  bool complete(uint64_t number);
  std::vector<std::shared_ptr<const Contribution>> all(uint64_t number) const { return posts_.at(number); }
  void finished(uint64_t number, int rank);
  // The last rank of all processes to leave removes the folder.
  void leave(int rank);
  // False where this thread has already called operation `number` for another rank outside of a group.
  bool alone_in_thread(uint64_t number, int rank);

 private:
  std::string file(uint64_t number, int rank) const;
  int count_;
  std::string folder_;
  std::set<int> local_;
  std::map<uint64_t, std::vector<std::shared_ptr<const Contribution>>> posts_;
  std::map<uint64_t, std::set<int>> finished_;
  std::map<uint64_t, std::map<int, uint64_t>> callers_;
};

// A new identification, and the folder that belongs to one.
std::string new_board_name();
std::string board_folder(const std::string& name);

// Leaves a note in the folder under the key, once: false where there is one already.
bool leave_note(const std::string& folder, const std::string& key, const std::string& text);
// "" where there is none yet.
std::string read_note(const std::string& folder, const std::string& key);

}  // namespace eng_emulation
