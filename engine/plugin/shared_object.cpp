// See shared_object.h. The words are those of elf(5): a program header describes a segment, PT_LOAD segments are what is mapped, a section header describes a
// section. The linker writes the section table last, so a file that is cut short anywhere has lost it; and as each section in memory must lie in a segment
// that maps it, a damaged program header shows too.
#include "engine/plugin/shared_object.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/io/file.h"

namespace eng {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
#error "add this machine's number in <elf.h>"
#endif
constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
constexpr const char* kAnew = "; copy or build the plugin anew";

struct Object {
  InputFile file;
  uint64_t size;
  Header header;
  std::vector<Segment> segments;
  std::vector<Section> sections;
};

// Whether [at, at + count) lies in [begin, begin + size), whatever the numbers are.
bool within(uint64_t at, uint64_t count, uint64_t begin, uint64_t size) { return at >= begin && at - begin <= size && count <= size - (at - begin); }

Status check_within_file(const Object& o, const char* what, uint64_t at, uint64_t count) {
  if (within(at, count, 0, o.size)) return {};
  return device_error("the file is cut short or damaged: its ", what, " takes ", count, " bytes from byte ", at, ", the file has ", o.size, kAnew);
}

Status damaged(const std::string& what) { return device_error("the file is damaged: ", what, kAnew); }

std::string machine_name(unsigned machine) {
  struct Row {
    unsigned machine;
    const char* name;
  };
  static constexpr Row rows[] = {{EM_386, "x86"}, {EM_X86_64, "x86-64"}, {EM_ARM, "ARM"}, {EM_AARCH64, "AArch64"}, {EM_PPC64, "POWER"}, {EM_RISCV, "RISC-V"}};
  for (const Row& row : rows)
    if (row.machine == machine) return row.name;
  return cat("machine ", machine, " of <elf.h>");
}

// "64-bit little-endian x86-64"
std::string kind_name(unsigned char file_class, unsigned char order, unsigned machine) {
  const std::string bits = file_class == ELFCLASS64 ? "64-bit" : file_class == ELFCLASS32 ? "32-bit" : cat("class ", int{file_class});
  const std::string bytes = order == ELFDATA2LSB ? "little-endian" : order == ELFDATA2MSB ? "big-endian" : cat("byte order ", int{order});
  return cat(bits, " ", bytes, " ", machine_name(machine));
}

Status check_magic(const Object& o) {
  if (o.size == 0) return device_error("the file is empty, wanted a shared library", kAnew);
  char magic[SELFMAG] = {};
  const size_t count = std::min<size_t>(SELFMAG, o.size);
  ENG_TRY(o.file.read(0, magic, static_cast<int64_t>(count)));
  if (std::memcmp(magic, ELFMAG, count) == 0) return {};
  return device_error("it is no shared library: it begins with '", printable(std::string_view(magic, count)), "', wanted an ELF file; name the plugin's .so file");
}

Status check_kind(const Header& h) {
  const unsigned char file_class = h.e_ident[EI_CLASS], order = h.e_ident[EI_DATA];
  const unsigned machine = order == kOrder ? h.e_machine : __builtin_bswap16(h.e_machine);
  if (file_class != kClass || order != kOrder || machine != kMachine)
    return device_error("it is for another machine: ", kind_name(file_class, order, machine), ", this engine is ", kind_name(kClass, kOrder, kMachine),
                        "; build the plugin for this machine");
  if (h.e_type == ET_DYN) return {};
  const std::string got = h.e_type == ET_EXEC ? "a program" : h.e_type == ET_REL ? "an object file that is not linked yet" : h.e_type == ET_CORE ? "a memory dump" : cat("of ELF type ", h.e_type);
  return device_error("it is ", got, ", wanted a shared library; name the plugin's .so file");
}

template <class Row>
Status read_table(const Object& o, const char* what, uint64_t at, uint64_t count, uint64_t row_size, std::vector<Row>& rows) {
  if (count > 0 && row_size != sizeof(Row)) return damaged(cat("a row of its ", what, " is ", row_size, " bytes long, wanted ", sizeof(Row)));
  ENG_TRY(check_within_file(o, what, at, count * sizeof(Row)));
  rows.resize(count);
  return o.file.read(static_cast<int64_t>(at), rows.data(), static_cast<int64_t>(count * sizeof(Row)));
}

uint64_t page_size() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }
uint64_t page_end(uint64_t address) { return (address + page_size() - 1) / page_size() * page_size(); }

// Each within the file, and in rising order on pages of its own, as the dynamic linker takes for granted.
Status check_loads(const Object& o) {
  uint64_t used = 0;  // pages below this address
  bool any = false;
  for (const Segment& s : o.segments) {
    if (s.p_type != PT_LOAD) continue;
    ENG_TRY(check_within_file(o, "loaded segment", s.p_offset, s.p_filesz));
    const uint64_t end = s.p_vaddr + s.p_memsz;
    if (s.p_filesz > s.p_memsz || end < s.p_vaddr || end > UINT64_MAX - page_size() || s.p_vaddr / page_size() * page_size() < used)
      return damaged(cat("the loaded segment at address ", s.p_vaddr, " of ", s.p_memsz, " bytes has no room"));
    used = page_end(end);
    any = true;
  }
  return any ? Status() : damaged("it has no loaded segment");
}

// The loaded segment with at least these rights whose memory holds all of an address range, or null.
const Segment* loaded_at(const Object& o, uint64_t address, uint64_t size, uint32_t rights) {
  const auto holds = [&](const Segment& s) { return s.p_type == PT_LOAD && (s.p_flags & rights) == rights && within(address, size, s.p_vaddr, s.p_memsz); };
  const auto it = std::find_if(o.segments.begin(), o.segments.end(), holds);
  return it == o.segments.end() ? nullptr : &*it;
}

// Whether `size` bytes at `offset` of the file come to `address`, in a segment with at least these rights.
bool is_mapped(const Object& o, uint64_t offset, uint64_t address, uint64_t size, uint32_t rights) {
  const Segment* s = loaded_at(o, address, size, rights);
  return s && within(offset, size, s->p_offset, s->p_filesz) && offset - s->p_offset == address - s->p_vaddr;
}

// Whether a segment that says where in the loaded ones the dynamic linker finds something, says it right.
bool fits_loads(const Object& o, const Segment& s) {
  switch (s.p_type) {
    case PT_TLS: return s.p_filesz <= s.p_memsz && (s.p_filesz == 0 || is_mapped(o, s.p_offset, s.p_vaddr, s.p_filesz, PF_R));
    case PT_GNU_RELRO: {  // some linkers let it end where its last page does, which is then not in the file
      const Segment* load = loaded_at(o, s.p_vaddr, 0, PF_R | PF_W);
      return load && s.p_offset - load->p_offset == s.p_vaddr - load->p_vaddr && within(s.p_vaddr, s.p_memsz, load->p_vaddr, page_end(load->p_vaddr + load->p_memsz) - load->p_vaddr) &&
             page_end(s.p_vaddr + s.p_filesz) == page_end(s.p_vaddr + s.p_memsz);
    }
    case PT_DYNAMIC: return s.p_filesz == s.p_memsz && is_mapped(o, s.p_offset, s.p_vaddr, s.p_filesz, PF_R | PF_W);
    case PT_NOTE:
    case PT_GNU_PROPERTY:
    case PT_GNU_EH_FRAME: return s.p_filesz == s.p_memsz && (s.p_filesz == 0 || is_mapped(o, s.p_offset, s.p_vaddr, s.p_filesz, PF_R));
    default: return true;
  }
}

Status check_parts_of_loads(const Object& o) {
  size_t dynamic = 0;
  for (const Segment& s : o.segments) {
    if (!fits_loads(o, s)) return damaged(cat("the segment of type ", s.p_type, " at address ", s.p_vaddr, " is not in what is loaded"));
    if (s.p_type == PT_DYNAMIC) ++dynamic;
  }
  return dynamic == 1 ? Status() : damaged(cat("it has ", dynamic, " dynamic segments, wanted 1"));
}

Status check_sections(const Object& o) {
  bool dynamic = o.sections.empty();  // a file may be without
  for (const Section& s : o.sections) {
    const bool in_file = s.sh_type != SHT_NOBITS;
    dynamic = dynamic || s.sh_type == SHT_DYNAMIC;
    if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0 || (!in_file && s.sh_flags & SHF_TLS)) continue;
    const uint32_t rights = PF_R | (s.sh_flags & SHF_WRITE ? PF_W : 0u) | (s.sh_flags & SHF_EXECINSTR ? PF_X : 0u);
    const Segment* zeros = in_file ? nullptr : loaded_at(o, s.sh_addr, s.sh_size, rights);  // behind what comes out of the file
    const bool fits = in_file ? is_mapped(o, s.sh_offset, s.sh_addr, s.sh_size, rights) : zeros && s.sh_addr - zeros->p_vaddr >= zeros->p_filesz;
    if (!fits) return damaged(cat("the section at address ", s.sh_addr, " of ", s.sh_size, " bytes is in no segment that loads it"));
  }
  return dynamic ? Status() : damaged("no section is the dynamic one");
}

Status check(Object& o) {
  ENG_TRY(check_magic(o));
  ENG_TRY(check_within_file(o, "header", 0, sizeof o.header));
  ENG_TRY(o.file.read(0, &o.header, sizeof o.header));
  const Header& h = o.header;
  ENG_TRY(check_kind(h));
  ENG_TRY(read_table(o, "table of segments", h.e_phoff, h.e_phnum, h.e_phentsize, o.segments));
  ENG_TRY(read_table(o, "table of sections", h.e_shoff, h.e_shnum, h.e_shentsize, o.sections));
  ENG_TRY(check_loads(o));
  ENG_TRY(check_parts_of_loads(o));
  return check_sections(o);
}

}  // namespace

Status check_shared_object(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file.ok()) return device_error(file.status().message());
  const uint64_t size = static_cast<uint64_t>(file->size());
  Object object{std::move(*file), size, {}, {}, {}};
  const Status status = check(object);
  return status.ok() ? status : device_error(status.message());  // a file that cannot be read is a plugin that cannot be loaded
}

}  // namespace eng
