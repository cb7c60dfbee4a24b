// See mpi_quiet.h. Open MPI prints its texts through a function pointer that its layers replace in turn; so does this file. The symbol is looked up
// at run time and must be a variable of a pointer's size, so another version or another MPI is left alone.
#include "engine/distributed/mpi_quiet.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdarg>
#include <cstring>

namespace eng {
namespace {

using ShowHelp = int (*)(const char* file, const char* topic, int error_header, ...);
using ShowHelpList = int (*)(const char* file, const char* topic, bool error_header, va_list arguments);

bool trouble = false;
ShowHelpList show_others = nullptr;

int show_help(const char* file, const char* topic, int error_header, ...) {
  if (!std::strcmp(file, "help-mpi-btl-tcp.txt")) {
    trouble = true;
    return 0;
  }
  if (!std::strcmp(file, "help-mpi-api.txt") && !std::strcmp(topic, "mpi-abort")) return 0;
  va_list arguments;
  va_start(arguments, error_header);
  const int result = show_others(file, topic, error_header != 0, arguments);
  va_end(arguments);
  return result;
}

// The address of a function pointer in a loaded library, or null.
void* pointer_variable(const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (!address || !dladdr1(address, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) || !symbol) return nullptr;
  return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size == sizeof(void*) ? address : nullptr;
}

}  // namespace

void hold_back_mpi_texts() {
  auto one = static_cast<ShowHelp*>(pointer_variable("opal_show_help"));
  auto list = static_cast<ShowHelpList*>(pointer_variable("opal_show_vhelp"));
  if (!one || !list || !*list) return;
  show_others = *list;
  *one = show_help;
}

bool connection_trouble() {
  const bool seen = trouble;
  trouble = false;
  return seen;
}

}  // namespace eng
