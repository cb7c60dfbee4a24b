// See dtype.h. A new element type is one row of kTypes.
#include "graph/base/dtype.h"

namespace eng {
namespace {

struct Row {
  DType type;
  size_t size;
  const char* name;
  bool floating, integer;
};
constexpr Row kTypes[] = {
    {DType::kFloat32, 4, "float32", true, false},   {DType::kUint8, 1, "uint8", false, true},
    {DType::kInt8, 1, "int8", false, true},         {DType::kUint16, 2, "uint16", false, true},
    {DType::kInt16, 2, "int16", false, true},       {DType::kInt32, 4, "int32", false, true},
    {DType::kInt64, 8, "int64", false, true},       {DType::kString, 0, "string", false, false},
    {DType::kBool, 1, "bool", false, false},        {DType::kFloat16, 2, "float16", true, false},
    {DType::kFloat64, 8, "float64", true, false},   {DType::kUint32, 4, "uint32", false, true},
    {DType::kUint64, 8, "uint64", false, true},     {DType::kBFloat16, 2, "bfloat16", true, false},
    {DType::kUndefined, 0, "undefined", false, false},
};
const Row* find(DType type) {
  for (const Row& row : kTypes)
    if (row.type == type) return &row;
  return nullptr;
}

}  // namespace

size_t size_of(DType type) { const Row* r = find(type); return r ? r->size : 0; }
std::string name_of(DType type) {
  const Row* r = find(type);
  return r ? r->name : "type " + std::to_string(static_cast<int32_t>(type));
}
bool is_floating(DType type) { const Row* r = find(type); return r && r->floating; }
bool is_integer(DType type) { const Row* r = find(type); return r && r->integer; }

}  // namespace eng
