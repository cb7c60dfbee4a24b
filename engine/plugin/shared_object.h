// What a file must be before dlopen may have it. The dynamic linker maps a shared object and reads it by its own tables: where the file is cut short or
// its tables are damaged it dies by SIGBUS or SIGSEGV. So the tables are read here first, as any other foreign bytes.
#pragma once

#include <string>

#include "graph/base/status.h"

namespace eng {

// Fine for a shared object of this machine whose tables and segments lie within the file and agree with one another. Else kDevice with what it is, what was
// wanted and what to do; the caller names the file. What the segments hold (code, data) is not looked at: only a checksum could tell.
Status check_shared_object(const std::string& path);

}  // namespace eng
