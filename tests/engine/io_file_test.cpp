// Files: what is read, what is refused, and that writing leaves the old file or the new one.
#include "engine/io/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "engine/io/checksum.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("CRC-32C has the published values") {
  CHECK(crc32c("123456789", 9) == 0xe3069283u);
  std::string zeros(32, '\0'), ones(32, '\xff'), ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  CHECK(crc32c(zeros.data(), 32) == 0x8a9136aau);  // RFC 3720, B.4
  CHECK(crc32c(ones.data(), 32) == 0x62a8ab43u);
  CHECK(crc32c(ascending.data(), 32) == 0x46dd794eu);
  CHECK(crc32c("6789", 4, crc32c("12345", 5)) == 0xe3069283u);
  CHECK(hex8(0x0000abcd) == "0000abcd");
}

TEST_CASE("only regular files are read, and a FIFO does not block") {
  TempFolder folder;
  CHECK(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(symlink("loop", (folder / "loop").c_str()) == 0);
  CHECK(symlink("gone", (folder / "broken").c_str()) == 0);
  write_bytes(folder / "file", "12345");
  CHECK(contains(read_file(folder / "fifo", 100).status().message(), "FIFO"));
  CHECK(contains(read_file("/dev/zero", 100).status().message(), "device"));
  CHECK(contains(read_file(folder.path(), 100).status().message(), "folder"));
  CHECK_FALSE(read_file(folder / "loop", 100).ok());
  CHECK(read_file(folder / "missing", 100).status().code() == Code::kNotFound);
  CHECK(contains(read_file(folder / "missing", 100).status().message(), "No such file"));
  CHECK(contains(read_file(folder / "file", 4).status().message(), "at most 4"));
  CHECK(read_text_file(folder / "file", 5).value() == "12345");
  CHECK(file_info(folder / "loop").problem == "a symbolic link that leads to itself");
  CHECK(file_info(folder / "broken").problem == "a symbolic link that leads nowhere");
  CHECK(file_info(folder / "fifo").kind == FileKind::kSpecial);
  CHECK(file_info(folder / "file").size == 5);
  MappedFile map = std::move(*MappedFile::open(folder / "file", 100));
  CHECK(map.bytes().size() == 5);
  CHECK(static_cast<char>(map.bytes()[4]) == '5');
}

TEST_CASE("reading past the end of an open file is an error") {
  TempFolder folder;
  write_bytes(folder / "file", "12345");
  InputFile file = std::move(*InputFile::open(folder / "file"));
  char buffer[8] = {};
  CHECK(file.read(1, buffer, 4).ok());
  CHECK(std::string(buffer, 4) == "2345");
  CHECK_FALSE(file.read(2, buffer, 4).ok());
  CHECK_FALSE(file.read(INT64_MAX, buffer, 4).ok());
  CHECK_FALSE(file.read(-1, buffer, 1).ok());
}

TEST_CASE("an atomic write shows nothing before commit and leaves nothing without it") {
  TempFolder folder;
  std::string path = folder / "target";
  write_bytes(path, "old");
  {
    auto file = std::move(*AtomicFile::create(path));
    CHECK(file->write("new content", 11).ok());
    CHECK(read_bytes(path) == "old");
  }
  CHECK(list_folder(folder.path()).value() == std::vector<std::string>{"target"});
  CHECK(write_file_atomic(path, "new content").ok());
  CHECK(read_bytes(path) == "new content");
  CHECK(list_folder(folder.path()).value() == std::vector<std::string>{"target"});
}

TEST_CASE("a file size limit is an error that names the path; the old file stands and the temporary file is gone") {
  TempFolder folder;
  std::string path = folder / "target";
  write_bytes(path, "old");
  ignore_file_size_signal();
  rlimit before{}, limit{};
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &limit);
  Status status = write_file_atomic(path, std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  CHECK_FALSE(status.ok());
  CHECK(contains(status.message(), path));
  CHECK(contains(status.message(), "File too large"));
  CHECK(read_bytes(path) == "old");
  CHECK(list_folder(folder.path()).value() == std::vector<std::string>{"target"});
}

TEST_CASE("writing into a missing folder or onto a folder names both") {
  TempFolder folder;
  CHECK(contains(write_file_atomic(folder.path() + "/no/such/file", "x").message(), "No such file"));
  CHECK(contains(write_file_atomic(folder.path(), "x").message(), "folder"));
}

TEST_CASE("an atomic write through a link replaces the file behind it") {
  TempFolder folder;
  write_bytes(folder / "real", "old");
  CHECK(symlink("real", (folder / "link").c_str()) == 0);
  CHECK(write_file_atomic(folder / "link", "new").ok());
  CHECK(file_info(folder / "link").is_link);
  CHECK(read_bytes(folder / "real") == "new");
}

TEST_CASE("the longest possible name can be written") {
  TempFolder folder;
  std::string path = folder / std::string(255, 'n');
  CHECK(write_file_atomic(path, "x").ok());
  CHECK(read_bytes(path) == "x");
}

TEST_CASE("folders are listed in byte order and made with their parents") {
  TempFolder folder;
  for (const char* name : {"b", "a", "B", "\xc3\xa9", "10", "9"}) write_bytes(folder / name, "");
  CHECK(list_folder(folder.path()).value() == std::vector<std::string>{"10", "9", "B", "a", "b", "\xc3\xa9"});
  CHECK(make_folder(folder.path() + "/x/y/z").ok());
  CHECK(make_folder(folder.path() + "/x/y/z/").ok());
  CHECK(file_info(folder.path() + "/x/y/z").kind == FileKind::kFolder);
  CHECK_FALSE(make_folder(folder.path() + "/a/y").ok());
  CHECK_FALSE(list_folder(folder / "none").ok());
}

TEST_CASE("names that are no UTF-8 become printable") {
  CHECK(printable("caf\xc3\xa9/x") == "caf\xc3\xa9/x");
  CHECK(printable("caf\xe9\n") == "caf\\xe9\\x0a");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(printable("\xf0\x9f\x98\x80") == "\xf0\x9f\x98\x80");
  CHECK(printable("\xf0\x9f\x98") == "\\xf0\\x9f\\x98");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");
}

// Sequences from the code charts of Unicode, written out by Python's str.encode.
TEST_CASE("characters that are not seen become printable") {
  CHECK(printable("a\x7f" "b") == "a\\u007fb");
  CHECK(printable("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0") == "\\u0080\\u009b\\u009f\xc2\xa0");  // C1 controls; then a space that does not break, which stays
  CHECK(printable("\xc2\xad") == "\\u00ad");
  CHECK(printable("\xd8\x9c") == "\\u061c");
  CHECK(printable("\xe1\xa0\x8e") == "\\u180e");
  CHECK(printable("\xe2\x80\x8b\xe2\x80\x8d\xe2\x80\x8f\xe2\x80\x90") == "\\u200b\\u200d\\u200f\xe2\x80\x90");  // U+2010 is a hyphen
  CHECK(printable("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf") == "\xe2\x80\xa7\\u2028\\u2029\\u202a\\u202e\xe2\x80\xaf");
  CHECK(printable("photo\xe2\x80\xaegpj.exe") == "photo\\u202egpj.exe");
  CHECK(printable("\xe2\x81\xa0\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaf\xe2\x81\xb0") == "\\u2060\\u2066\\u2069\\u206f\xe2\x81\xb0");
  CHECK(printable("\xef\xbb\xbf\xef\xbf\xb9\xef\xbf\xbb\xef\xbf\xbd") == "\\ufeff\\ufff9\\ufffb\xef\xbf\xbd");
  CHECK(printable("\xf0\x9d\x85\xb3\xf3\xa0\x81\x81\xf4\x8f\xbf\xbf") == "\\ud834\\udd73\\udb40\\udc41\xf4\x8f\xbf\xbf");
  const std::string seen = "\xce\xb1\xd7\x90\xd8\xa7\xe4\xb8\xad\xed\x95\x9c\xf0\x9f\x98\x80";  // Greek, Hebrew, Arabic, Chinese, Korean, a face
  CHECK(printable(seen) == seen);
}
