// Small words for the ABI's structs, for the files that call a backend's functions.
#pragma once

#include <string>

#include "backends/abi/backend_abi.h"

namespace eng {

inline eb_error no_error() { return {sizeof(eb_error), 0, {0}}; }
inline std::string text(const eb_string& s) { return s.data ? std::string(s.data, s.length) : std::string(); }

// An optional table (backend_abi.h: query) of at least minor version 1; null where the backend has none.
template <class Table>
const Table* optional_table(const eb_backend_table& backend, const std::string& name) {
  return backend.query ? static_cast<const Table*>(backend.query({name.data(), name.size()}, 1)) : nullptr;
}

}  // namespace eng
