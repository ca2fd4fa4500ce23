#include "checkpoint/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/json.h"

namespace tessera::checkpoint {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format's numbers are read in place");

struct TypeRow {
  std::string_view name;
  std::uint64_t bits;
};

// The rows are in the order of ElementType.
constexpr std::array<TypeRow, 20> type_rows{{{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                                             {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
                                             {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
                                             {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

constexpr std::uint64_t length_bytes = 8;

std::string_view header_of(const base::MappedFile& file) {
  const std::string path = file.path().string();
  base::require(file.size() >= length_bytes,
                "{}: {} bytes are too few for a safetensors file; it is damaged or of another format", path,
                file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes().data(), length_bytes);
  base::require(length <= header_limit,
                "{}: the header claims {} bytes, the limit is {}; the file is damaged or not of the safetensors format",
                path, length, header_limit);
  base::require(length <= file.size() - length_bytes,
                "{}: the header claims {} bytes, the file has {} after its first 8; it is cut or damaged", path, length,
                file.size() - length_bytes);
  return file.text().substr(length_bytes, length);
}

ElementType read_type(const Json& entry, const std::string& place) {
  const auto it = entry.find("dtype");
  base::require(it != entry.end() && it->is_string(), "{}: no \"dtype\"", place);
  const auto& text = it->get_ref<const std::string&>();
  const auto row = std::find_if(type_rows.begin(), type_rows.end(), [&](const TypeRow& r) { return r.name == text; });
  base::require(row != type_rows.end(), "{}: dtype \"{}\" is not known", place, text);
  return static_cast<ElementType>(row - type_rows.begin());
}

std::vector<std::uint64_t> read_numbers(const Json& entry, const char* key, const std::string& place) {
  const auto it = entry.find(key);
  base::require(it != entry.end() && it->is_array(), "{} has no array \"{}\"", place, key);
  std::vector<std::uint64_t> numbers;
  for (const Json& number : *it) {
    base::require(number.is_number_unsigned(), "{}: \"{}\" holds {}, not a count", place, key, number.dump());
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

// Returns the bytes of a tensor, or nothing if its number of bits does not fit into 63 bits or into whole bytes. Checks
// too that each size fits into int64.
std::optional<std::uint64_t> byte_size(const std::vector<std::uint64_t>& shape, std::uint64_t element_bits) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t product = element_bits;
  bool empty = false;
  for (const std::uint64_t size : shape) {
    if (size > most) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (product > most / size) return std::nullopt;
    product *= size;
  }
  if (empty) return 0;
  return product % 8 == 0 ? std::optional(product / 8) : std::nullopt;
}

StoredTensor read_entry(const std::string& tensor_name, const Json& entry, const std::string& path) {
  const std::string place = path + ": tensor \"" + tensor_name + "\"";
  base::require(entry.is_object(), "{}: not an object", place);
  for (const auto& [key, unused] : entry.items())
    base::require(key == "dtype" || key == "shape" || key == "data_offsets", "{}: unknown key \"{}\"", place, key);
  StoredTensor tensor{tensor_name, read_type(entry, place), {}, 0, 0};
  const auto shape = read_numbers(entry, "shape", place);
  const auto offsets = read_numbers(entry, "data_offsets", place);
  base::require(offsets.size() == 2 && offsets[0] <= offsets[1], "{}: \"data_offsets\" is not [begin, end]", place);
  const auto size = byte_size(shape, bits(tensor.type));
  base::require(size.has_value(), "{}: its shape has no size in bytes", place);
  base::require(*size == offsets[1] - offsets[0], "{}: shape and dtype need {} bytes, \"data_offsets\" give it {}",
                place, *size, offsets[1] - offsets[0]);
  for (const std::uint64_t s : shape) tensor.shape.push_back(static_cast<std::int64_t>(s));
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return tensor;
}

void read_metadata(const Json& entry, const std::string& path, std::map<std::string, std::string>& metadata) {
  if (entry.is_null()) return;  // safetensors writes null for an absent map
  base::require(entry.is_object(), "{}: \"__metadata__\" is not an object", path);
  for (const auto& [key, value] : entry.items()) {
    base::require(value.is_string(), "{}: \"__metadata__\": the value of \"{}\" is not a text", path, key);
    metadata.emplace(key, value.get<std::string>());
  }
}

// Checks that the byte ranges cover the data without overlap. Precondition: tensors are sorted by begin, then end.
void check_ranges(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes, const std::string& path) {
  std::uint64_t reached = 0;
  for (const StoredTensor& tensor : tensors) {
    base::require(tensor.end <= data_bytes, "{}: tensor \"{}\" ends at byte {} of {}; the file is cut or damaged", path,
                  tensor.name, tensor.end, data_bytes);
    base::require(tensor.begin >= reached, "{}: tensor \"{}\" begins at byte {}, before the end {} of its predecessor",
                  path, tensor.name, tensor.begin, reached);
    base::require(tensor.begin == reached, "{}: bytes {} to {} before tensor \"{}\" belong to no tensor", path, reached,
                  tensor.begin, tensor.name);
    reached = tensor.end;
  }
  base::require(reached == data_bytes, "{}: the tensors end at byte {}, the data at {}", path, reached, data_bytes);
}

}  // namespace

std::string_view name(ElementType type) { return type_rows.at(static_cast<std::size_t>(type)).name; }

std::uint64_t bits(ElementType type) { return type_rows.at(static_cast<std::size_t>(type)).bits; }

SafetensorsFile::SafetensorsFile(const base::Path& path) : file_(path) {
  const base::DiskWork work("reading", file_.path().native());
  const std::string_view header = header_of(file_);
  data_ = file_.bytes().subspan(length_bytes + header.size());
  const std::string place = path.string();
  const Json json = base::parse_json_line(header, place, 1);
  base::require(json.is_object(), "{}: the header is not a JSON object", place);
  for (const auto& [key, entry] : json.items()) {
    if (key == "__metadata__")
      read_metadata(entry, place, metadata_);
    else
      tensors_.push_back(read_entry(key, entry, place));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_ranges(tensors_, data_.size(), place);
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

void SafetensorsFile::prefetch(std::uint64_t begin, std::uint64_t count) const {
  if (begin >= data_.size()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(data_.data() + begin) / page * page;
  const auto end =
      reinterpret_cast<std::uintptr_t>(data_.data() + std::min<std::uint64_t>(begin + count, data_.size()));
  ::madvise(reinterpret_cast<void*>(first), end - first, MADV_WILLNEED);
}

std::span<const std::byte> SafetensorsFile::bytes(const StoredTensor& tensor) const {
  return data_.subspan(tensor.begin, tensor.end - tensor.begin);
}

}  // namespace tessera::checkpoint
