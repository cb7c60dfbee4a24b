// See loader.h.
#include "engine/plugin/loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "engine/plugin/abi_words.h"
#include "engine/plugin/device.h"
#include "engine/plugin/shared_object.h"

namespace eng {
namespace {

namespace fs = std::filesystem;

Status check_size(uint32_t given, size_t needed, const char* what, const std::string& source) {
  if (given >= needed) return {};
  return device_error(source, ": its ", what, " is ", given, " bytes long, this engine needs ", needed, "; build the plugin against this engine's backend_abi.h");
}

// The first of the named functions that is null, as an error.
struct NamedFunction {
  template <class F>
  NamedFunction(const char* function_name, F* function) : name(function_name), there(function != nullptr) {}
  const char* name;
  bool there;
};
Status check_functions(std::initializer_list<NamedFunction> functions, const char* table, const std::string& source) {
  for (const NamedFunction& f : functions)
    if (!f.there) return device_error(source, ": the function ", f.name, " of its ", table, " is null");
  return {};
}

Status check_core(const eb_core_table& t, const std::string& source) {
  ENG_TRY(check_size(t.struct_size, sizeof t, "core table", source));
  return check_functions({{"device_count", t.device_count}, {"device_info", t.device_info}, {"open_device", t.open_device}, {"close_device", t.close_device},
                          {"shutdown", t.shutdown}}, "core table", source);
}

Status check_memory(const eb_memory_table& t, const std::string& source) {
  ENG_TRY(check_size(t.struct_size, offsetof(eb_memory_table, copy_between), "memory table", source));  // as 1.0 had it
  return check_functions({{"allocate", t.allocate}, {"release", t.release}, {"allocate_host", t.allocate_host}, {"release_host", t.release_host},
                          {"copy_to_device", t.copy_to_device}, {"copy_to_host", t.copy_to_host}, {"copy_on_device", t.copy_on_device}, {"fill_zero", t.fill_zero}},
                         "memory table", source);
}

Status check_streams(const eb_stream_table& t, const std::string& source) {
  ENG_TRY(check_size(t.struct_size, sizeof t, "stream table", source));
  return check_functions({{"create", t.create}, {"destroy", t.destroy}, {"synchronize", t.synchronize}, {"create_event", t.create_event},
                          {"destroy_event", t.destroy_event}, {"record", t.record}, {"wait", t.wait}, {"event_query", t.event_query},
                          {"event_synchronize", t.event_synchronize}}, "stream table", source);
}

Status check_kernel(const eb_kernel_desc* d, uint32_t index, const std::string& source) {
  const std::string where = cat(source, ": kernel ", index);
  if (!d) return device_error(where, " is null");
  ENG_TRY(check_size(d->struct_size, sizeof *d, "descriptor", where));
  if (d->op_type.length == 0 || !d->op_type.data) return device_error(where, " names no operator");
  const std::string name = where + " (" + text(d->op_type) + ")";
  ENG_TRY(check_functions({{"can_run", d->can_run}, {"create", d->create}, {"workspace", d->workspace}, {"run", d->run}, {"destroy", d->destroy}}, "descriptor", name));
  if (d->alias_count && !d->aliases) return device_error(name, ": it says ", d->alias_count, " aliases but gives none");
  return {};
}

bool named_like_a_plugin(const std::string& name) {
  const bool starts = name.rfind("engine-backend-", 0) == 0 || name.rfind("libengine_backend_", 0) == 0;
  return starts && name.size() > 18 && name.substr(name.size() - 3) == ".so";
}

// The file itself, or a folder's engine-backend-*.so and libengine_backend_*.so in alphabetical order.
Result<std::vector<std::string>> plugin_files(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return error ? not_found("backend path '", path, "': ", error.message()) : not_found("backend path '", path, "' does not exist");
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (auto it = fs::directory_iterator(path, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (named_like_a_plugin(it->path().filename().string())) files.push_back(it->path().string());
  }
  if (error) return not_found("backend path '", path, "': ", error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::set<std::string>& loaded_files() {
  static std::set<std::string> files;
  return files;
}

}  // namespace

Status check_backend(const eb_backend_table* table, const std::string& source) {
  if (!table) return device_error(source, ": ", EB_GET_BACKEND_SYMBOL, " returned null");
  // Only what every version has may be read before the versions are compared.
  ENG_TRY(check_size(table->struct_size, offsetof(eb_backend_table, kernel_count), "backend table", source));
  if (table->abi_major != EB_ABI_MAJOR)
    return device_error(source, ": it speaks backend ABI ", table->abi_major, ".", table->abi_minor, ", this engine ", EB_ABI_MAJOR, ".", EB_ABI_MINOR,
                        "; the major versions must be the same");
  ENG_TRY(check_size(table->struct_size, sizeof *table, "backend table", source));
  if (table->name.length == 0 || !table->name.data) return device_error(source, ": the backend has no name");
  if (!table->core || !table->memory || !table->streams)
    return device_error(source, ": its ", !table->core ? "core" : !table->memory ? "memory" : "stream", " table is null");
  ENG_TRY(check_core(*table->core, source));
  ENG_TRY(check_memory(*table->memory, source));
  ENG_TRY(check_streams(*table->streams, source));
  if (!table->query) return device_error(source, ": the function query of its backend table is null");
  if (table->kernel_count && !table->kernels) return device_error(source, ": it says ", table->kernel_count, " kernels but gives none");
  for (uint32_t i = 0; i < table->kernel_count; ++i) ENG_TRY(check_kernel(table->kernels[i], i, source));
  return {};
}

Result<const eb_backend_table*> load_backend(const std::string& path) {
  const std::string source = "backend '" + path + "'";
  // A bare name would be looked for along the system's library path: make it a path.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  if (const Status sound = check_shared_object(file); !sound.ok()) return device_error(source, " cannot be loaded: ", sound.message());
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return device_error(source, " cannot be loaded: ", dlerror());
  auto get = reinterpret_cast<eb_get_backend_fn>(dlsym(library, EB_GET_BACKEND_SYMBOL));
  if (!get) return device_error(source, ": it does not export ", EB_GET_BACKEND_SYMBOL, "; it is no backend of this engine");
  const eb_backend_table* table = get();
  ENG_TRY(check_backend(table, source));
  for (const eb_backend_table* other : backends())
    if (text(other->name) == text(table->name)) return device_error(source, ": a backend named '", text(table->name), "' is there already");
  register_backend(table);
  return table;
}

Status load_backends(const std::string& list) {
  std::string paths = list;
  bool own_folder = false;
  if (paths.empty()) {
    const char* from_environment = std::getenv("ENGINE_BACKEND_PATH");
    paths = from_environment ? from_environment : "";
  }
  if (paths.empty()) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (error) return {};
    paths = program.parent_path().string();
    own_folder = true;
  }
  for (size_t at = 0; at <= paths.size();) {
    const size_t end = std::min(paths.find(':', at), paths.size());
    const std::string path = paths.substr(at, end - at);
    at = end + 1;
    if (path.empty()) continue;
    ENG_ASSIGN(std::vector<std::string> files, plugin_files(path));
    if (files.empty() && !own_folder) return not_found("backend path '", path, "': the folder holds no plugin; one is named engine-backend-*.so or libengine_backend_*.so");
    for (const std::string& file : files) {
      std::error_code error;
      const fs::path real = fs::canonical(file, error);
      if (loaded_files().count(error ? file : real.string())) continue;
      ENG_TRY(load_backend(file).status());
      loaded_files().insert(error ? file : real.string());
    }
  }
  return {};
}

Status load_backends_for(const std::vector<std::string>& devices, const std::string& list) {
  bool needed = !list.empty();
  for (const std::string& device : devices) {
    const std::string kind = device.substr(0, device.find(':'));
    const auto& known = backends();
    needed = needed || std::none_of(known.begin(), known.end(), [&](const eb_backend_table* b) { return text(b->name) == kind; });
  }
  return needed ? load_backends(list) : Status();
}

}  // namespace eng
