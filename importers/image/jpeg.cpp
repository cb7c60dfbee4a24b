// JPEG through libjpeg-turbo's libjpeg interface. Its default error handler ends the process: ours jumps back. The functions between
// setjmp and the jump hold nothing that needs a destructor. See decode.h for what is decided about the formats.
#include <cstdio>  // jpeglib.h needs FILE

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>

#include "importers/image/decode.h"
#include "importers/image/formats.h"

namespace eng {
namespace {

constexpr long kMaxCoefficientMemory = 192'000'000;  // progressive pictures hold all coefficients, 2 bytes each
constexpr int64_t kMaxScanWork = 2'000'000'000;      // scans x pixels, so that many tiny scans over a big picture cannot take minutes

struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  int code = 0;
  bool too_many_scans = false;
  char message[JMSG_LENGTH_MAX] = {};
  bool created = false;

  JpegReader() = default;
  JpegReader(const JpegReader&) = delete;
  ~JpegReader() {
    if (created) jpeg_destroy_decompress(&info);
  }
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* reader = static_cast<JpegReader*>(info->client_data);
  reader->code = info->err->msg_code;
  info->err->format_message(info, reader->message);
  std::longjmp(reader->jump, 1);
}

// Level -1 is a warning: damage, and going on could only waste time. Two are about header versions, not about pixels.
void on_message(j_common_ptr info, int level) {
  if (level >= 0 || info->err->msg_code == JWRN_JFIF_MAJOR || info->err->msg_code == JWRN_ADOBE_XFORM) return;
  on_error(info);
}
void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  auto* reader = static_cast<JpegReader*>(info->client_data);
  int64_t scans = reader->info.input_scan_number, pixels = int64_t{reader->info.image_width} * reader->info.image_height;
  if (scans <= kMaxScans && scans * pixels <= kMaxScanWork) return;
  reader->too_many_scans = true;
  std::longjmp(reader->jump, 1);
}

bool read_header(JpegReader& reader, const std::byte* bytes, size_t count) {
  if (setjmp(reader.jump)) return false;
  jpeg_create_decompress(&reader.info);
  reader.created = true;
  reader.info.client_data = &reader;
  reader.progress.progress_monitor = on_progress;
  reader.info.progress = &reader.progress;
  reader.info.mem->max_memory_to_use = kMaxCoefficientMemory;
  jpeg_mem_src(&reader.info, reinterpret_cast<const unsigned char*>(bytes), static_cast<unsigned long>(count));
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

bool start(JpegReader& reader, J_COLOR_SPACE out, unsigned denominator) {
  if (setjmp(reader.jump)) return false;
  reader.info.out_color_space = out;
  reader.info.scale_num = 1;
  reader.info.scale_denom = denominator;
  reader.info.dct_method = JDCT_ISLOW;
  reader.info.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&reader.info);
  return true;
}

// As many rows as the decoder gives at once, at most `count`; 0 on an error.
int read_rows(JpegReader& reader, uint8_t** rows, int count) {
  if (setjmp(reader.jump)) return 0;
  return static_cast<int>(jpeg_read_scanlines(&reader.info, rows, static_cast<JDIMENSION>(count)));
}

bool finish(JpegReader& reader) {
  if (setjmp(reader.jump)) return false;
  jpeg_finish_decompress(&reader.info);
  return true;
}

Status failure(const JpegReader& reader) {
  const auto& info = reader.info;
  if (reader.too_many_scans)
    return invalid("scan ", info.input_scan_number, " of a ", info.image_width, "x", info.image_height, " picture: at most ", kMaxScans,
                   " scans are read, fewer for big pictures");
  if (reader.code == JERR_BAD_PRECISION)
    return unsupported(info.data_precision, " bits a sample are not supported; save it with 8 bits");
  if (reader.code == JERR_NO_BACKING_STORE || reader.code == JERR_OUT_OF_MEMORY)
    return invalid("a progressive picture of ", info.image_width, "x", info.image_height, " needs more than ", kMaxCoefficientMemory / 1'000'000,
                   " MB to decode; save it smaller or not progressive");
  return invalid("damaged: ", reader.message);
}

// The largest reduction that leaves each side at least twice the target.
unsigned choose_denominator(const jpeg_decompress_struct& info, const DecodeOptions& options) {
  if (options.target_height < 1 || options.target_width < 1) return 1;
  for (unsigned d : {8u, 4u, 2u})
    if (int64_t{info.image_height} >= 2 * options.target_height * d && int64_t{info.image_width} >= 2 * options.target_width * d) return d;
  return 1;
}

// In place: inverted inks to RGB, rounded like Pillow's multiplication.
void cmyk_to_rgb(uint8_t* row, int64_t width) {
  const uint8_t* from = row;
  for (int64_t x = 0; x < width; ++x, from += 4, row += 3) {
    unsigned black = from[3];
    for (int c = 0; c < 3; ++c) {
      unsigned product = from[c] * black + 128;
      row[c] = static_cast<uint8_t>((product + (product >> 8)) >> 8);
    }
  }
}

}  // namespace

Status decode_jpeg(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image) {
  JpegReader reader;
  jpeg_decompress_struct& info = reader.info;
  info.err = jpeg_std_error(&reader.errors);
  info.client_data = &reader;
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  reader.errors.output_message = on_output;
  if (!read_header(reader, bytes, count)) return failure(reader);
  ENG_TRY(check_picture_size(info.image_width, info.image_height));

  J_COLOR_SPACE in = info.jpeg_color_space;
  bool grey = in == JCS_GRAYSCALE, inks = in == JCS_CMYK || in == JCS_YCCK;
  if (!grey && !inks && in != JCS_YCbCr && in != JCS_RGB)
    return unsupported(info.num_components, " components of an unknown colour space are not supported");
  if (!start(reader, grey ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB, choose_denominator(info, options))) return failure(reader);
  int64_t width = info.output_width, height = info.output_height;
  int64_t components = grey ? 1 : inks ? 4 : 3;
  if (info.output_components != components) return internal_error("libjpeg delivers ", info.output_components, " components, expected ", components);

  RowSink sink(image, options);
  sink.begin(height, width, grey ? 1 : 3);
  constexpr int kRows = 16;
  std::vector<uint8_t> buffer(static_cast<size_t>(width * components) * kRows);
  uint8_t* rows[kRows];
  for (int i = 0; i < kRows; ++i) rows[i] = buffer.data() + static_cast<size_t>(i) * static_cast<size_t>(width * components);
  while (info.output_scanline < info.output_height) {
    int got = read_rows(reader, rows, kRows);
    if (got == 0) return failure(reader);
    for (int i = 0; i < got; ++i) {
      if (inks) cmyk_to_rgb(rows[i], width);
      sink.add(rows[i]);
    }
  }
  return finish(reader) ? Status() : failure(reader);
}

}  // namespace eng
