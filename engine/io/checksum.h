// CRC-32C (Castagnoli polynomial, reflected 0x82f63b78; the CRC of iSCSI and of TensorBoard's records): finds every change of
// up to 32 neighbouring bits. SSE4.2's instruction where the processor has it, tables elsewhere; same value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace eng {

// crc32c("123456789") == 0xe3069283. `crc` continues an earlier result over the next piece.
uint32_t crc32c(const void* bytes, size_t count, uint32_t crc = 0);
// Eight lower-case hexadecimal digits.
std::string hex8(uint32_t value);

}  // namespace eng
