#include "checkpoint/float_type.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tessera::checkpoint {
namespace {

struct Row {
  ElementType type;
  c10::ScalarType scalar;
  std::string_view name;
};
constexpr std::array rows{Row{ElementType::F32, c10::ScalarType::Float, "float32"},
                          Row{ElementType::F64, c10::ScalarType::Double, "float64"},
                          Row{ElementType::BF16, c10::ScalarType::BFloat16, "bfloat16"},
                          Row{ElementType::F16, c10::ScalarType::Half, "float16"}};

const Row& row_of(ElementType type) {
  const auto* row = std::ranges::find(rows, type, &Row::type);
  base::expect(row != rows.end(), "{} is not a type of weights", name(type));
  return *row;
}

}  // namespace

c10::ScalarType scalar_type(ElementType type) { return row_of(type).scalar; }

ElementType stored_type(c10::ScalarType type) {
  const auto* row = std::ranges::find(rows, type, &Row::scalar);
  base::expect(row != rows.end(), "{} is not a type of weights", c10::toString(type));
  return row->type;
}

std::string_view torch_name(ElementType type) { return row_of(type).name; }

std::optional<ElementType> float_type_called(std::string_view torch_name) {
  const auto* row = std::ranges::find(rows, torch_name, &Row::name);
  if (row == rows.end()) return std::nullopt;
  return row->type;
}

}  // namespace tessera::checkpoint
