// The safetensors format: a file as its own library writes it, hostile headers, and checksums that find every flipped bit.
#include "engine/io/safetensors.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

Bytes file_of(const std::string& header, const Bytes& data) {
  Bytes out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 255);
  return out + header + data;
}
std::string error_of(const std::string& header, const Bytes& data) {
  TempFolder folder;
  write_bytes(folder / "x.safetensors", file_of(header, data));
  Result<SafetensorsFile> file = read_safetensors(folder / "x.safetensors");
  REQUIRE_FALSE(file.ok());
  return file.status().message();
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

SafetensorsFile sample() {
  SafetensorsFile file;
  file.tensors["a.weight"] = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  file.tensors["b"] = Tensor::ints({7, -8});
  file.tensors["empty"] = Tensor(DType::kFloat32, {0, 4});
  file.tensors["s"] = Tensor::scalar(DType::kFloat64, 2.5);
  file.metadata = {{"epoch", "3"}, {"note", "\"quoted\" \xc3\xa9\n"}};
  return file;
}

}  // namespace

TEST_CASE("a file of the safetensors library 0.8 is read") {
  // save_file({'w': float32 [[1,2],[3,-4]], 'i': int64 [5]}, metadata={'format': 'pt'})
  TempFolder folder;
  write_bytes(folder / "x.safetensors",
              from_base64("kAAAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJmb3JtYXQiOiJwdCJ9LCJpIjp7ImR0eXBlIjoiSTY0Iiwic2hhcGUiOlsxXSwiZGF0YV9vZmZzZXRz"
                          "IjpbMCw4XX0sInciOnsiZHR5cGUiOiJGMzIiLCJzaGFwZSI6WzIsMl0sImRhdGFfb2Zmc2V0cyI6WzgsMjRdfX0gICAFAAAAAAAAAAAAgD8AAABAAABAQAAAgMA="));
  Result<SafetensorsFile> file = read_safetensors(folder / "x.safetensors");
  INFO(file.status().message());
  REQUIRE(file.ok());
  CHECK(file->metadata.at("format") == "pt");
  CHECK(file->tensors.at("i").to_ints() == std::vector<int64_t>{5});
  const Tensor& w = file->tensors.at("w");
  CHECK(w.shape() == Shape{2, 2});
  CHECK(w.at(3) == -4);
  CHECK_FALSE(file->checksummed);
}

TEST_CASE("what is written is read back, with and without checksums") {
  TempFolder folder;
  for (bool checksums : {false, true}) {
    REQUIRE(write_safetensors(folder / "x.safetensors", sample(), checksums).ok());
    CHECK(looks_like_safetensors(folder / "x.safetensors"));
    SafetensorsFile back = std::move(*read_safetensors(folder / "x.safetensors"));
    CHECK(back.checksummed == checksums);
    CHECK(back.metadata == sample().metadata);
    REQUIRE(back.tensors.size() == 4);
    CHECK(back.tensors["a.weight"].at(5) == 6);
    CHECK(back.tensors["b"].to_ints() == std::vector<int64_t>{7, -8});
    CHECK(back.tensors["empty"].shape() == Shape{0, 4});
    CHECK(back.tensors["s"].at(0) == 2.5);
    CHECK(back.tensors["s"].shape().empty());
  }
}

TEST_CASE("every single flipped bit of a checksummed file is found") {
  TempFolder folder;
  std::string path = folder / "x.safetensors";
  REQUIRE(write_safetensors(path, sample(), true).ok());
  Bytes good = read_bytes(path);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    write_bytes(path, bad);
    Result<SafetensorsFile> file = read_safetensors(path);
    bool found = !file.ok() || !file->checksummed;  // a checkpoint reader asks for checksummed
    if (!found) CAPTURE(bit);
    CHECK(found);
  }
}

TEST_CASE("every truncation is refused") {
  TempFolder folder;
  std::string path = folder / "x.safetensors";
  REQUIRE(write_safetensors(path, sample()).ok());
  Bytes good = read_bytes(path);
  for (size_t length = 0; length < good.size(); ++length) {
    write_bytes(path, good.substr(0, length));
    CHECK_FALSE(read_safetensors(path).ok());
  }
  write_bytes(path, good + "x");
  CHECK_FALSE(read_safetensors(path).ok());
}

TEST_CASE("headers that lie are refused by tensor") {
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), "needs 8 bytes"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", "123456"),
                 "overlap"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", "123456"), "hole"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "12345678"), "too long"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[4194305,4194305,211106198978564],"data_offsets":[0,4]}})", "1234"), "overflow"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"), "negative"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[1e3],"data_offsets":[0,4]}})", "1234"), "dimension"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "1234"), "F8_E4M3"));
  CHECK(contains(error_of(R"({"a":{"dtype":7,"shape":[4],"data_offsets":[0,4]}})", "1234"), "not supported"));
  CHECK(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"), "ascending"));
  CHECK(contains(error_of(R"({"a":3})", ""), "lacks"));
  CHECK(contains(error_of(R"({"__metadata__":{"x":3}})", ""), "no text"));
  CHECK(contains(error_of("[1,2,3]", ""), "object"));
  CHECK(contains(error_of("{\"a\"", ""), "object"));
  CHECK(contains(error_of(std::string(1000000, '['), ""), "object"));
}

TEST_CASE("a header length beyond the file is refused without allocating it") {
  TempFolder folder;
  write_bytes(folder / "x", Bytes("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  CHECK(contains(read_safetensors(folder / "x").status().message(), "header length"));
  write_bytes(folder / "x", Bytes("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  CHECK_FALSE(read_safetensors(folder / "x").ok());
}

TEST_CASE("names that are no UTF-8 cannot be written, and say so") {
  TempFolder folder;
  SafetensorsFile file;
  file.tensors["caf\xe9"] = Tensor::ints({1});
  CHECK(contains(write_safetensors(folder / "x", file).message(), "UTF-8"));
}
