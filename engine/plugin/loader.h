// Finds, loads and checks backend plugins: shared objects that export eb_get_backend (backends/abi/backend_abi.h). What is loaded
// stays loaded until the process ends: nothing is ever unloaded under a running thread.
#pragma once

#include <string>
#include <vector>

#include "backends/abi/backend_abi.h"
#include "graph/base/status.h"

namespace eng {

// Loads one plugin and registers its backend, so that Device::open finds it by name. Errors name the file and what is wrong: no
// shared object of this machine, cut short or damaged (shared_object.h), no such symbol, another major version, a struct shorter than this engine needs, a function that is null, a
// backend name that is taken.
Result<const eb_backend_table*> load_backend(const std::string& path);

// Loads all plugins of a list of files and folders, separated by ':'. In a folder these are the files
// engine-backend-*.so and libengine_backend_*.so. With an empty list: that of the environment variable ENGINE_BACKEND_PATH, else the
// folder of the running program, where none is fine too.
// A file that is loaded already is skipped.
Status load_backends(const std::string& list);

// load_backends, where it is needed: a list is given, or one of the devices ("cuda:0") is of a backend that is not there yet. A run on the CPU so
// starts without looking for plugins.
Status load_backends_for(const std::vector<std::string>& devices, const std::string& list);

// Whether a table keeps the ABI's rules; `source` is named in the error.
Status check_backend(const eb_backend_table* table, const std::string& source);

}  // namespace eng
