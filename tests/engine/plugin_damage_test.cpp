// Plugin files that are cut short, damaged, or something else: each is an error that names the file, or is loaded where what is damaged does not matter, and
// never the end of the process. Loading is tried in child processes, so that a signal is a failure of the test.
#include <doctest/doctest.h>

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/io/file.h"
#include "engine/plugin/loader.h"
#include "engine/plugin/shared_object.h"
#include "tests/support/fake_plugin.h"
#include "tests/support/temp_folder.h"

using namespace eng;
using namespace eng::test;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Plugin {
  std::string bytes = *read_text_file(fake_backend_path(), int64_t{1} << 30);
  const Elf64_Ehdr& header() const { return *reinterpret_cast<const Elf64_Ehdr*>(bytes.data()); }
  size_t segment_at(size_t i) const { return header().e_phoff + i * sizeof(Elf64_Phdr); }
  const Elf64_Phdr& segment(size_t i) const { return *reinterpret_cast<const Elf64_Phdr*>(bytes.data() + segment_at(i)); }
  // Place of the n-th program header of a type in the file.
  size_t find(uint32_t type, size_t n = 0) const {
    for (size_t i = 0; i < header().e_phnum; ++i)
      if (segment(i).p_type == type && n-- == 0) return segment_at(i);
    FAIL("the fake plugin has no such program header");
    return 0;
  }
};

template <class T>
std::string with(std::string bytes, size_t at, T value) {
  return bytes.replace(at, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

struct Outcome {
  bool loaded = false, refused = false;  // neither: the child died
  Code code = Code::kOk;
};

// load_backend on `count` files, each in its turn the content that `make` gives, by child processes; the one after a child that died goes on behind the file
// that killed it.
std::vector<Outcome> outcomes(size_t count, const std::function<std::string(size_t)>& make) {
  const TempFolder folder;
  const size_t bytes = (count + 1) * sizeof(Outcome) + sizeof(size_t);
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto* next = new (shared) size_t(0);
  auto* found = new (next + 1) Outcome[count + 1];
  while (*next < count) {
    const size_t end = std::min(count, *next + 100);  // what is loaded stays loaded, so each child has its share only
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (size_t i = *next; i < end; ++i) {
        const std::string path = folder / cat("engine-backend-", i, ".so");
        write(path, make(i));
        *next = i + 1;
        const auto table = load_backend(path);
        const bool taken = says(table.status().message(), "is there already");  // loaded, as an earlier one of this name
        const bool named = says(table.status().message(), "backend '" + path + "'");
        found[i] = {table.ok() || taken, !table.ok() && !taken && named, table.status().code()};
        unlink(path.c_str());
      }
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    MESSAGE("a child died of file ", *next - 1, ", status ", status);
  }
  std::vector<Outcome> result(found, found + count);
  munmap(shared, bytes);
  return result;
}

}  // namespace

TEST_CASE("plugin files: cut short anywhere, refused") {
  const Plugin plugin;
  std::vector<size_t> lengths{0, 1, 3, 4, 15, 16, 63, 64, plugin.header().e_shoff, plugin.header().e_shoff + 1, plugin.bytes.size() - 1};
  for (size_t i = 0; i < plugin.header().e_phnum; ++i) {
    lengths.push_back(plugin.segment_at(i));
    lengths.push_back(plugin.segment(i).p_offset);
    lengths.push_back(plugin.segment(i).p_offset + plugin.segment(i).p_filesz);
  }
  for (size_t length = 100; length < plugin.bytes.size(); length += plugin.bytes.size() / 150) lengths.push_back(length);
  const auto found = outcomes(lengths.size(), [&](size_t i) { return plugin.bytes.substr(0, lengths[i]); });
  for (size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(lengths[i]);
    CHECK(found[i].refused);
    CHECK(found[i].code == Code::kDevice);
  }
}

TEST_CASE("plugin files: without a section table, cut within what is loaded, refused") {
  const Plugin plugin;
  const std::string bare = with(with(plugin.bytes, offsetof(Elf64_Ehdr, e_shoff), uint64_t{0}), offsetof(Elf64_Ehdr, e_shnum), uint16_t{0});
  size_t end = 0;  // of the last segment
  for (size_t i = 0; i < plugin.header().e_phnum; ++i)
    if (plugin.segment(i).p_type == PT_LOAD) end = std::max(end, plugin.segment(i).p_offset + plugin.segment(i).p_filesz);
  const size_t step = end / 100;
  const auto found = outcomes(102, [&](size_t i) { return bare.substr(0, i <= 100 ? std::min(i * step, end - 1) : end); });
  for (size_t i = 0; i <= 100; ++i) {
    CAPTURE(i);
    CHECK(found[i].refused);
  }
  CHECK(found[101].loaded);  // whole but for the table, which nobody needs
}

TEST_CASE("plugin files: any bit of the headers turned over, an error or loaded") {
  const Plugin plugin;
  const size_t bits = 8 * (sizeof(Elf64_Ehdr) + plugin.header().e_phnum * sizeof(Elf64_Phdr));
  const auto found = outcomes(bits, [&](size_t i) { return with(plugin.bytes, i / 8, static_cast<char>(plugin.bytes[i / 8] ^ 1 << i % 8)); });
  size_t loaded = 0, refused = 0;
  for (size_t i = 0; i < bits; ++i) {
    CAPTURE(i);
    CHECK((found[i].loaded || found[i].refused));
    CHECK((found[i].loaded || found[i].code == Code::kDevice));
    (found[i].loaded ? loaded : refused) += 1;
  }
  CHECK(loaded > bits / 10);  // physical addresses, notes: read by nobody
  CHECK(refused > bits / 10);
}

TEST_CASE("plugin files: what is wrong with a header is said") {
  const Plugin plugin;
  const TempFolder folder;
  const std::string& good = plugin.bytes;
  const size_t load = plugin.find(PT_LOAD, 1), dynamic = plugin.find(PT_DYNAMIC), relro = plugin.find(PT_GNU_RELRO);
  const uint64_t size = good.size();
  const struct {
    std::string bytes, message;
  } rows[] = {
      {with(good, EI_CLASS, char{ELFCLASS32}), "it is for another machine: 32-bit little-endian x86-64, this engine is 64-bit little-endian x86-64; build the plugin for this machine"},
      {with(with(good, EI_DATA, char{ELFDATA2MSB}), offsetof(Elf64_Ehdr, e_machine), __builtin_bswap16(EM_PPC64)), "it is for another machine: 64-bit big-endian POWER"},
      {with(good, offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_AARCH64}), "it is for another machine: 64-bit little-endian AArch64"},
      {with(good, offsetof(Elf64_Ehdr, e_machine), uint16_t{999}), "it is for another machine: 64-bit little-endian machine 999 of <elf.h>"},
      {with(good, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_EXEC}), "it is a program, wanted a shared library; name the plugin's .so file"},
      {with(good, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_REL}), "it is an object file that is not linked yet, wanted a shared library"},
      {with(good, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_CORE}), "it is a memory dump, wanted a shared library"},
      {with(good, offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX - 7), cat("the file is cut short or damaged: its table of segments takes ", 56 * plugin.header().e_phnum,
                                                                     " bytes from byte 18446744073709551608, the file has ", size, "; copy or build the plugin anew")},
      {with(good, offsetof(Elf64_Ehdr, e_phentsize), uint16_t{32}), "the file is damaged: a row of its table of segments is 32 bytes long, wanted 56"},
      {with(good, offsetof(Elf64_Ehdr, e_phnum), uint16_t{0}), "the file is damaged: it has no loaded segment"},
      {with(good, offsetof(Elf64_Ehdr, e_shoff), size - 64), cat("its table of sections takes ", 64 * plugin.header().e_shnum, " bytes from byte ", size - 64, ", the file has ", size)},
      {with(good, load + offsetof(Elf64_Phdr, p_offset), UINT64_MAX), "its loaded segment takes "},
      {with(good, load + offsetof(Elf64_Phdr, p_filesz), UINT64_MAX), "its loaded segment takes 18446744073709551615 bytes from byte "},
      {with(good, load + offsetof(Elf64_Phdr, p_memsz), uint64_t{16}), "of 16 bytes has no room"},
      {with(good, load + offsetof(Elf64_Phdr, p_memsz), UINT64_MAX), "of 18446744073709551615 bytes has no room"},
      {with(good, load + offsetof(Elf64_Phdr, p_vaddr), uint64_t{0}), "the loaded segment at address 0 of "},
      {with(good, load + offsetof(Elf64_Phdr, p_flags), uint32_t{PF_R}), "bytes is in no segment that loads it"},
      {with(good, load, uint32_t{PT_NULL}), "bytes is in no segment that loads it"},
      {with(good, dynamic + offsetof(Elf64_Phdr, p_vaddr), uint64_t{0}), "the segment of type 2 at address 0 is not in what is loaded"},
      {with(good, dynamic, uint32_t{PT_NULL}), "it has 0 dynamic segments, wanted 1"},
      {with(good, relro + offsetof(Elf64_Phdr, p_vaddr), uint64_t{0}), "at address 0 is not in what is loaded"},
      {good.substr(0, plugin.header().e_shoff) + std::string(size - plugin.header().e_shoff, '\0'), "no section is the dynamic one"},
  };
  for (const auto& row : rows) {
    write(folder / "x.so", row.bytes);
    const Status status = check_shared_object(folder / "x.so");
    CHECK(status.code() == Code::kDevice);
    CHECK_MESSAGE(says(status.message(), row.message), status.message(), " is not: ", row.message);
  }
  write(folder / "x.so", good);
  CHECK(check_shared_object(folder / "x.so").ok());
}

TEST_CASE("plugin files: what is no library at all") {
  const TempFolder folder;
  write(folder / "empty.so", "");
  write(folder / "text.so", "#!/bin/sh\n");
  write(folder / "short.so", "\x7f" "EL");
  REQUIRE(mkfifo((folder / "fifo.so").c_str(), 0600) == 0);
  std::filesystem::create_directories(folder / "folder.so");
  std::filesystem::create_symlink("nothing", folder / "link.so");
  const struct {
    std::string path, message;
  } rows[] = {{folder / "empty.so", "the file is empty, wanted a shared library; copy or build the plugin anew"},
              {folder / "text.so", "it is no shared library: it begins with '#!/b', wanted an ELF file; name the plugin's .so file"},
              {folder / "short.so", "the file is cut short or damaged: its header takes 64 bytes from byte 0, the file has 3"},
              {folder / "fifo.so", "is a FIFO, wanted a regular file"},
              {folder / "folder.so", "is a folder, wanted a regular file"},
              {folder / "link.so", "No such file or directory"}};
  for (const auto& row : rows) {
    const Status status = load_backend(row.path).status();
    CHECK(status.code() == Code::kDevice);
    CHECK_MESSAGE(says(status.message(), "backend '" + row.path + "' cannot be loaded: "), status.message());
    CHECK_MESSAGE(says(status.message(), row.message), status.message());
  }
  CHECK(load_backend("/proc/self/exe").status().code() == Code::kDevice);  // a program
}
