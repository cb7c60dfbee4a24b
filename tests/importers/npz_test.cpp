// NumPy files as NumPy 2.4 wrote them (base64), what is refused, damage, and the way out and back.
#include "importers/npz/npz.h"

#include <doctest/doctest.h>

#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

const char* const kNpz =
    "UEsDBC0AAAAAAAAAIQBP6QAq//////////8FABQAeC5ucHkBABAAmAAAAAAAAACYAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxmNCcsICdmb3J0cmFu"
    "X29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgyLCAzKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAKAAAAAAAAgD8AAABAAABAQAAAgEAAAKBAUEsDBC0AAAAAAAAAIQBx+zmr//////////8FABQAeS5ucHkBABAAkAAAAAAAAACQAAAAAAAAAJNOVU1QWQEA"
    "dgB7J2Rlc2NyJzogJzxpOCcsICdmb3J0cmFuX29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgyLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAQAAAAAAAAAAAAAAAAAAAFBLAQItAy0AAAAAAAAAIQBP6QAqmAAAAJgAAAAFAAAAAAAAAAAAAACAAQAA"
    "AAB4Lm5weVBLAQItAy0AAAAAAAAAIQBx+zmrkAAAAJAAAAAFAAAAAAAAAAAAAACAAc8AAAB5Lm5weVBLBQYAAAAAAgACAGYAAACWAQAAAAA=";
const char* const kNpzDeflated =
    "UEsDBC0AAAAIAAAAIQBP6QAq//////////8FABQAeC5ucHkBABAAmAAAAAAAAABVAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TZqKuo6Cell9UUpSY"
    "F59flJIKEndLzClOBYoXZyQWpAL5GkY6CsaaOgq1CmQDLgYwaLAHEg5ABMQNQLzAAQBQSwMELQAAAAgAAAAhAE5ja7H//////////wUAFAB5Lm5weQEAEACC"
    "AAAAAAAAAEYAAAAAAAAAm+wX6hsQychQxlCtnpJanFykbqWgXlNqqK6joJ6WX1RSlJgXn1+UkgoSd0vMKU4FihdnJBakAvkaRjqaOgq1ChQALkYGAFBLAQIt"
    "Ay0AAAAIAAAAIQBP6QAqVQAAAJgAAAAFAAAAAAAAAAAAAACAAQAAAAB4Lm5weVBLAQItAy0AAAAIAAAAIQBOY2uxRgAAAIIAAAAFAAAAAAAAAAAAAACAAYwA"
    "AAB5Lm5weVBLBQYAAAAAAgACAGYAAAAJAQAAAAA=";
const char* const kFortranBigEndian =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPmkyJywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMywgNCksIH0gICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAMAAQAEAAIABQAAQANAAUAEQAJABUAAgAOAAYAEgAKABYAAwAPAAcAEwALABc=";
const char* const kHalf =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGYyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAPgDA";
const char* const kBoolV2 =
    "k05VTVBZAgB0AAAAeydkZXNjcic6ICd8YjEnLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAA==";
const char* const kScalarV3 =
    "k05VTVBZAwB0AAAAeydkZXNjcic6ICc+ZjgnLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoKSwgfSAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIApAHQAAAAAAAA==";
const char* const kObjects =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnfE8nLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLCAnc2hhcGUnOiAoMSwpLCB9ICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqABJWLAAAAAAAAAIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJST"
    "lIwFbnVtcHmUjAduZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwGFlGgDjAVkdHlwZZSTlIwCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv////9LP3SUYold"
    "lH2UYXSUYi4=";
const char* const kTexts =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPFUyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAphAAAAYgAAAA==";
const char* const kRecords =
    "k05VTVBZAQB2AHsnZGVzY3InOiBbKCdhJywgJzxpNCcpXSwgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAA";
const char* const kComplex =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGM4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAAA==";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
Result<Tensor> npy(const Bytes& bytes) {
  TempFolder folder;
  write_bytes(folder / "x.npy", bytes);
  return read_npy(folder / "x.npy");
}
Result<std::map<std::string, Tensor>> npz(const Bytes& bytes) {
  TempFolder folder;
  write_bytes(folder / "x.npz", bytes);
  return read_npz(folder / "x.npz");
}
Bytes npy_of(const std::string& dictionary, const Bytes& data) {
  Bytes header = dictionary + "\n";
  return Bytes("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) + static_cast<char>(header.size() >> 8) + header + data;
}

}  // namespace

TEST_CASE("npz: stored and deflated archives of NumPy") {
  for (const char* file : {kNpz, kNpzDeflated}) {
    auto arrays = npz(from_base64(file));
    INFO(arrays.status().message());
    REQUIRE(arrays.ok());
    REQUIRE(arrays->size() == 2);
    const Tensor& x = arrays->at("x");
    CHECK(x.dtype() == DType::kFloat32);
    CHECK(x.shape() == Shape{2, 3});
    for (int64_t i = 0; i < 6; ++i) CHECK(x.at(i) == i);
    CHECK(arrays->at("y").to_ints() == std::vector<int64_t>{1, 0});
    CHECK(arrays->at("y").dtype() == (file == kNpz ? DType::kInt64 : DType::kUint8));
  }
}

TEST_CASE("npy: Fortran order, big endian, half floats, bool, scalars, versions 1 to 3") {
  Tensor f = *npy(from_base64(kFortranBigEndian));
  CHECK(f.shape() == Shape{2, 3, 4});
  CHECK(f.dtype() == DType::kInt16);
  for (int64_t i = 0; i < 24; ++i) CHECK(f.at(i) == i);
  Tensor half = *npy(from_base64(kHalf));
  CHECK(half.dtype() == DType::kFloat16);
  CHECK(half.at(0) == 1.5);
  CHECK(half.at(1) == -2);
  Tensor b = *npy(from_base64(kBoolV2));
  CHECK(b.dtype() == DType::kBool);
  CHECK(b.at(0) == 1);
  CHECK(b.at(1) == 0);
  Tensor s = *npy(from_base64(kScalarV3));
  CHECK(s.shape().empty());
  CHECK(s.at(0) == 7.25);
}

TEST_CASE("what is no plain array of numbers is refused by name") {
  CHECK(contains(npy(from_base64(kObjects)).status().message(), "Python objects"));
  CHECK(contains(npy(from_base64(kTexts)).status().message(), "texts"));
  CHECK(contains(npy(from_base64(kRecords)).status().message(), "records"));
  CHECK(contains(npy(from_base64(kComplex)).status().message(), "complex"));
  CHECK_FALSE(npy("hello").ok());
  CHECK_FALSE(npz("hello, this is no archive at all").ok());
}

TEST_CASE("headers that lie are refused") {
  CHECK(npy(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678")).ok());
  for (const char* dictionary :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4194305, 4194305, 211106198978564), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }", "{'descr': '<f4', 'shape': (2,), }", "{'descr': '<f4'", "", "{",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "{'descr': '', 'fortran_order': False, 'shape': (2,), }"})
    CHECK_FALSE(npy(npy_of(dictionary, "12345678")).ok());
}

TEST_CASE("every truncation and every damaged byte of the data is found") {
  for (const char* file : {kNpz, kNpzDeflated}) {
    Bytes good = from_base64(file);
    for (size_t length = 0; length < good.size(); ++length) CHECK_FALSE(npz(good.substr(0, length)).ok());
    for (size_t i = 0; i < good.size(); ++i) {
      Bytes bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x20);
      auto arrays = npz(bad);  // fields that do not matter (dates, attributes, names) may change
      if (!arrays.ok()) continue;
      for (const auto& [name, array] : *arrays) CHECK(array.element_count() <= 6);
    }
  }
  Bytes bad = from_base64(kNpz);
  size_t data = bad.find("NUMPY") + 140;
  bad[data] = static_cast<char>(bad[data] ^ 1);
  CHECK(contains(npz(bad).status().message(), "checksum"));
}

TEST_CASE("what is written is read back") {
  TempFolder folder;
  std::map<std::string, Tensor> arrays{{"probabilities", Tensor::of<float>({2, 2}, {0.25f, 0.75f, 1, 0})},
                                       {"label", Tensor::ints({3, 4, 5})},
                                       {"s", Tensor::scalar(DType::kFloat64, -1.5)},
                                       {"none", Tensor(DType::kUint8, {0, 3})}};
  REQUIRE(write_npz(folder / "x.npz", arrays).ok());
  auto back = *read_npz(folder / "x.npz");
  REQUIRE(back.size() == 4);
  CHECK(back["probabilities"].at(1) == 0.75);
  CHECK(back["label"].to_ints() == std::vector<int64_t>{3, 4, 5});
  CHECK(back["s"].shape().empty());
  CHECK(back["s"].at(0) == -1.5);
  CHECK(back["none"].shape() == Shape{0, 3});
  REQUIRE(write_npy(folder / "x.npy", arrays["label"]).ok());
  CHECK(read_npy(folder / "x.npy")->to_ints() == std::vector<int64_t>{3, 4, 5});
  CHECK_FALSE(write_npy(folder / "x.npy", Tensor(DType::kBFloat16, {2})).ok());
  CHECK(read_npy(folder / "x.npy")->to_ints() == std::vector<int64_t>{3, 4, 5});
}
