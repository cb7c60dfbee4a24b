// PNG through libpng. libpng reports errors by longjmp: the functions between setjmp and the jump hold nothing that needs a destructor,
// everything else lies in PngReader, outside. See decode.h for what is decided about the formats.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include "importers/image/decode.h"
#include "importers/image/formats.h"

namespace eng {
namespace {

// Chunks that change nothing here and could be bombs (compressed text, profiles): not even read into memory. tRNS is among
// them: transparency is dropped, so a palette always expands to three channels.
constexpr png_byte kIgnoredChunks[] = "tRNS\0bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0sTER\0tEXt\0tIME\0zTXt";
constexpr int kIgnoredCount = static_cast<int>(sizeof(kIgnoredChunks) / 5);
constexpr int64_t kMaxInterlaced = 64'000'000;  // pixels: an interlaced picture cannot be averaged while it is read

struct PngReader {
  const std::byte* bytes;
  size_t count, at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[256] = {};
  png_uint_32 width = 0, height = 0;
  int passes = 1;
  size_t row_bytes = 0;

  PngReader(const std::byte* b, size_t n) : bytes(b), count(n) {}
  PngReader(const PngReader&) = delete;
  ~PngReader() {
    if (png) png_destroy_read_struct(&png, info ? &info : nullptr, nullptr);
  }
};

void on_error(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, text ? text : "unknown error", sizeof(reader->message) - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}  // libpng's warnings are about ancillary chunks; damage to pixels is an error
void on_read(png_structp png, png_bytep out, png_size_t wanted) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (wanted > reader->count - reader->at) png_error(png, "the file is cut short");
  std::memcpy(out, reader->bytes + reader->at, wanted);
  reader->at += wanted;
}

// False: reader.message says why.
bool read_header(PngReader& reader, bool to_rgb) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_structp png = reader.png;
  png_set_read_fn(png, &reader, on_read);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // check_picture_size is the limit
  png_set_chunk_malloc_max(png, 8'000'000);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kIgnoredChunks, kIgnoredCount);
  png_read_info(png, reader.info);
  reader.width = png_get_image_width(png, reader.info);
  reader.height = png_get_image_height(png, reader.info);
  png_set_scale_16(png);
  png_set_expand(png);  // palette to RGB, 1, 2 and 4 bits to 8
  png_set_strip_alpha(png);
  if (to_rgb) png_set_gray_to_rgb(png);
  return true;
}

bool start_rows(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  reader.row_bytes = png_get_rowbytes(reader.png, reader.info);
  return true;
}

bool read_row(PngReader& reader, png_bytep row) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_row(reader.png, row, nullptr);
  return true;
}

bool read_end(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Status decode_png(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image) {
  PngReader reader(bytes, count);
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  reader.info = reader.png ? png_create_info_struct(reader.png) : nullptr;
  if (!reader.info) return internal_error("libpng cannot be set up");
  auto damaged = [&] { return invalid("damaged: ", reader.message); };
  if (!read_header(reader, options.channels == 3)) return damaged();
  ENG_TRY(check_picture_size(reader.width, reader.height));
  bool grey = options.channels == 1 && !(png_get_color_type(reader.png, reader.info) & PNG_COLOR_MASK_COLOR);
  bool interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
  int64_t height = reader.height, width = reader.width, channels = grey ? 1 : 3;
  if (interlaced && height * width > kMaxInterlaced)
    return invalid("interlaced and ", width, "x", height, ", more than ", kMaxInterlaced, " pixels; save it without interlacing");
  if (!start_rows(reader)) return damaged();
  if (reader.row_bytes != static_cast<size_t>(width * channels))
    return internal_error("libpng's rows have ", reader.row_bytes, " bytes, expected ", width * channels);

  RowSink sink(image, options);
  sink.begin(height, width, channels);
  // An interlaced picture is put together over seven passes, so it is held whole; libpng wants rows in between to stay as they are.
  std::vector<uint8_t> rows(reader.row_bytes * static_cast<size_t>(interlaced ? height : 1));
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) {
      uint8_t* row = rows.data() + (interlaced ? static_cast<size_t>(y) * reader.row_bytes : 0);
      if (!read_row(reader, row)) return damaged();
      if (pass + 1 == reader.passes) sink.add(row);
    }
  }
  return read_end(reader) ? Status() : damaged();
}

}  // namespace eng
