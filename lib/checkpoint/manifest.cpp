#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/sealed_json.h"

namespace tessera::checkpoint {
namespace {

using Json = nlohmann::json;

// A longer file is no manifest: a piece takes some 60 bytes.
constexpr std::uint64_t manifest_limit = 4ULL << 30;
constexpr const char* format_name = "tessera checkpoint";
constexpr std::int64_t shortest_file = 8;  // the bytes that give the length of the header

struct ProgressRow {
  const char* key;
  std::int64_t Progress::*member;
  std::int64_t least;
};
constexpr std::array progress_rows{
    ProgressRow{"step", &Progress::step, 0},
    ProgressRow{"optimizer_steps", &Progress::optimizer_steps, 0},
    ProgressRow{"skipped_steps", &Progress::skipped_steps, 0},
    ProgressRow{"total_steps", &Progress::total_steps, 0},
    ProgressRow{"tokens", &Progress::tokens, 0},
    ProgressRow{"global_batch", &Progress::global_batch, 0},
    ProgressRow{"micro_step", &Progress::micro_step, 0},
    ProgressRow{"evaluated_at", &Progress::evaluated_at, -1},
    ProgressRow{"epoch", &Progress::epoch, 0},
    ProgressRow{"window", &Progress::window, 0},
};

struct HashRow {
  const char* key;
  std::uint64_t Progress::*member;
};
// A checkpoint of an earlier Tessera lacks these keys.
constexpr std::array later_hashes{
    HashRow{"data_fingerprint", &Progress::data_fingerprint},
    HashRow{"data_content", &Progress::data_content},
    HashRow{"held_out_fingerprint", &Progress::held_out_fingerprint},
};

std::string json_text(const std::string& text) { return Json(text).dump(); }

std::string text_of(const Progress& progress) {
  std::string text;
  for (const auto& row : progress_rows) text += fmt::format("\"{}\": {}, ", row.key, progress.*row.member);
  text += fmt::format("\"data_hash\": \"{}\"", base::hex(progress.data_hash));
  for (const auto& row : later_hashes)
    text += fmt::format(", \"{}\": \"{}\"", row.key, base::hex(progress.*row.member));
  return text;
}

std::string text_of(const StoredFile& file) {
  return fmt::format(R"({{"name": {}, "bytes": {}, "header_hash": "{}"}})", json_text(file.name), file.bytes,
                     base::hex(file.header_hash));
}

std::string text_of(const ManifestPiece& piece) {
  std::vector<std::string> box, hashes;
  for (const auto& block : piece.box.dims) box.push_back(fmt::format("[{},{}]", block.begin, block.end));
  for (const auto hash : piece.hashes) hashes.push_back(fmt::format("\"{}\"", base::hex(hash)));
  return fmt::format(R"({{"file":{},"box":[{}],"hashes":[{}]}})", piece.file, fmt::join(box, ","),
                     fmt::join(hashes, ","));
}

std::string text_of(const ManifestTensor& tensor) {
  std::vector<std::string> pieces;
  for (const auto& piece : tensor.pieces) pieces.push_back("\n      " + text_of(piece));
  return fmt::format("{{\"name\": {}, \"dtype\": \"{}\", \"shape\": [{}], \"states\": {},\n     \"pieces\": [{}]}}",
                     json_text(tensor.parameter.fqn), name(tensor.type), fmt::join(tensor.parameter.shape, ","),
                     Json(tensor.states).dump(), fmt::join(pieces, ","));
}

std::string text_of(const StoredCompanion& companion) {
  return fmt::format(R"({{"name": {}, "bytes": {}, "hash": "{}"}})", json_text(companion.name), companion.bytes,
                     base::hex(companion.hash));
}

// Reads members of one JSON object; errors name their place.
class Object {
 public:
  Object(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    base::require(json_.is_object(), "{} is not an object", place_);
  }

  [[nodiscard]] const Json& member(const char* key) const {
    const auto it = json_.find(key);
    base::require(it != json_.end(), "{}: no \"{}\"", place_, key);
    return *it;
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t least) const {
    return checked_integer(member(key), fmt::format("{}: \"{}\"", place_, key), least);
  }
  [[nodiscard]] const std::string& text(const char* key) const {
    const auto& value = member(key);
    base::require(value.is_string(), "{}: \"{}\" is not a text", place_, key);
    return value.get_ref<const std::string&>();
  }
  [[nodiscard]] const Json& array(const char* key) const {
    const auto& value = member(key);
    base::require(value.is_array(), "{}: \"{}\" is not an array", place_, key);
    return value;
  }
  [[nodiscard]] std::uint64_t hash(const char* key) const { return checked_hash(member(key), place_); }
  [[nodiscard]] const std::string& place() const { return place_; }

  static std::int64_t checked_integer(const Json& value, const std::string& place, std::int64_t least) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                          : value.is_number_integer();
    base::require(fits && value.get<std::int64_t>() >= least, "{} is not an integer of at least {}", place, least);
    return value.get<std::int64_t>();
  }
  static std::uint64_t checked_hash(const Json& value, const std::string& place) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto* text = value.get_ptr<const std::string*>();
    base::require(text != nullptr && text->size() == 16 && text->find_first_not_of(digits) == std::string::npos,
                  "{}: the hash does not have 16 hexadecimal digits", place);
    return std::stoull(*text, nullptr, 16);
  }

 private:
  const Json& json_;
  std::string place_;
};

Progress read_progress(const Object& object) {
  Progress progress;
  for (const auto& row : progress_rows) progress.*row.member = object.integer(row.key, row.least);
  progress.data_hash = object.hash("data_hash");
  for (const auto& row : later_hashes)
    if (object.has(row.key)) progress.*row.member = object.hash(row.key);
  base::require(progress.step <= progress.total_steps && progress.evaluated_at <= progress.step &&
                    progress.optimizer_steps <= progress.step &&
                    progress.skipped_steps <= progress.step - progress.optimizer_steps,
                "{}: its numbers of steps contradict each other", object.place());
  return progress;
}

std::string read_file_name(const Object& object) {
  const auto& name = object.text("name");
  base::require(!name.empty() && base::Path(name).filename() == name && name != "." && name != "..",
                "{}: {} is not the name of a file beside the manifest", object.place(), json_text(name));
  return name;
}

StoredFile read_file_entry(const Object& object) {
  return {.name = read_file_name(object),
          .bytes = static_cast<std::uint64_t>(object.integer("bytes", shortest_file)),
          .header_hash = object.hash("header_hash")};
}

StoredCompanion read_companion(const Object& object) {
  return {.name = read_file_name(object),
          .bytes = static_cast<std::uint64_t>(object.integer("bytes", 0)),
          .hash = object.hash("hash")};
}

// Returns the number of elements of a shape, or nothing if the number of their bytes does not fit into 63 bits.
std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& shape) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max() / 8;
  std::int64_t elements = 1;
  for (const auto size : shape) {
    if (size != 0 && elements > most / size) return std::nullopt;
    elements *= size;
  }
  return elements;
}

ManifestPiece read_piece(const Object& object, const ManifestTensor& tensor, std::size_t files) {
  ManifestPiece piece;
  piece.file = static_cast<std::size_t>(object.integer("file", 0));
  base::require(piece.file < files, "{}: file {} is not one of {} files", object.place(), piece.file, files);
  const auto& box = object.array("box");
  const auto& shape = tensor.parameter.shape;
  base::require(box.size() == shape.size(), "{}: a box has {} dims, but the shape has {}", object.place(), box.size(),
                shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto place = object.place() + ": \"box\"";
    base::require(box[d].is_array() && box[d].size() == 2, "{}: a block is not [begin, end]", place);
    const layout::Block block{Object::checked_integer(box[d][0], place, 0),
                              Object::checked_integer(box[d][1], place, 0)};
    base::require(block.begin < block.end && block.end <= shape[d],
                  "{}: block [{}, {}] does not lie within a dim of {}", place, block.begin, block.end, shape[d]);
    piece.box.dims.push_back(block);
  }
  for (const auto& hash : object.array("hashes")) piece.hashes.push_back(Object::checked_hash(hash, object.place()));
  base::require(piece.hashes.size() == tensor.states.size(), "{}: a piece has {} hashes, but there are {} states",
                object.place(), piece.hashes.size(), tensor.states.size());
  return piece;
}

// Checks that the pieces cover the tensor without overlap, in a sweep over dim 0: only pieces that share an index of
// dim 0 can overlap.
void check_cover(const ManifestTensor& tensor, const std::string& place) {
  std::int64_t covered = 0;
  std::vector<const ManifestPiece*> order, active;
  for (const auto& piece : tensor.pieces) order.push_back(&piece);
  if (!tensor.parameter.shape.empty())
    std::ranges::sort(order, {}, [](const ManifestPiece* p) { return p->box.dims.front().begin; });
  for (const auto* piece : order) {
    std::erase_if(active, [&](const ManifestPiece* p) {
      return !p->box.dims.empty() && p->box.dims.front().end <= piece->box.dims.front().begin;
    });
    for (const auto* other : active)
      base::require(layout::intersect(other->box, piece->box).elements() == 0, "{}: two of its pieces overlap", place);
    active.push_back(piece);
    covered += piece->box.elements();  // cannot overflow: the pieces are disjoint
  }
  base::require(covered == elements_of(tensor.parameter.shape), "{}: its pieces have {} of its elements", place,
                covered);
}

ElementType read_float_type(const Object& object) {
  const auto& text = object.text("dtype");
  for (const auto type : {ElementType::F32, ElementType::F64, ElementType::BF16, ElementType::F16})
    if (name(type) == text) return type;
  base::fail("{}: dtype {} is not one of F64, F32, BF16, F16", object.place(), json_text(text));
}

ManifestTensor read_tensor(const Object& object, const std::string& source, std::size_t files) {
  ManifestTensor tensor;
  tensor.parameter.fqn = object.text("name");
  const auto place = fmt::format("{}: tensor {}", source, json_text(tensor.parameter.fqn));
  for (const auto& size : object.array("shape"))
    tensor.parameter.shape.push_back(Object::checked_integer(size, place + ": \"shape\"", 0));
  base::require(elements_of(tensor.parameter.shape).has_value(), "{}: its shape has no size in bytes", place);
  tensor.type = read_float_type(object);
  for (const auto& state : object.array("states")) {
    base::require(state.is_string() && !state.get_ref<const std::string&>().empty(), "{}: a state has no name", place);
    tensor.states.push_back(state.get<std::string>());
  }
  base::require(std::set(tensor.states.begin(), tensor.states.end()).size() == tensor.states.size(),
                "{}: a state is listed twice", place);
  std::set<std::size_t> used;
  for (const auto& piece : object.array("pieces")) {
    tensor.pieces.push_back(read_piece(Object(piece, place), tensor, files));
    base::require(used.insert(tensor.pieces.back().file).second, "{}: two pieces are in file {}", place,
                  tensor.pieces.back().file);
  }
  check_cover(tensor, place);
  return tensor;
}

}  // namespace

std::string stored_name(const std::string& state, const std::string& fqn) { return state + "/" + fqn; }

std::string to_text(const Manifest& manifest) {
  std::vector<std::string> files, tensors, companions;
  for (const auto& companion : manifest.companions) companions.push_back("\n    " + text_of(companion));
  for (const auto& file : manifest.files) files.push_back("\n    " + text_of(file));
  for (const auto& tensor : manifest.tensors) tensors.push_back("\n    " + text_of(tensor));
  auto text = seal(fmt::format(
      "  \"format\": \"{}\",\n  \"version\": {},\n  \"progress\": {{{}}},\n  \"layout\": {},\n  \"model\": {},\n"
      "  \"settings\": {},\n{}  \"files\": [{}],\n  \"tensors\": [{}]",
      format_name, format_version, text_of(manifest.progress), json_text(manifest.layout),
      Json::parse(manifest.model).dump(), Json::parse(manifest.settings).dump(),
      companions.empty() ? "" : fmt::format("  \"companions\": [{}],\n", fmt::join(companions, ",")),
      fmt::join(files, ","), fmt::join(tensors, ",")));
  base::require(text.size() <= manifest_limit,
                "the manifest has {} bytes, but no more than {} can be read; save on fewer ranks", text.size(),
                manifest_limit);
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  const auto json = base::parse_json_line(text, source, 1);
  const Object object(json, source);
  base::require(object.text("format") == format_name, "{}: its format is {}, not \"{}\"", source,
                json_text(object.text("format")), format_name);
  const auto version = object.integer("version", 1);
  base::require(version <= format_version,
                "{}: format version {}; this program reads versions up to {}: use a newer Tessera", source, version,
                format_version);
  Manifest manifest;
  manifest.progress = read_progress(Object(object.member("progress"), source + ": \"progress\""));
  manifest.layout = object.text("layout");
  manifest.model = object.member("model").dump();
  manifest.settings = object.member("settings").dump();
  std::set<std::string> names;
  std::uint64_t bytes = 0;
  const auto add_bytes = [&](std::uint64_t of_file) {
    bytes += of_file;
    base::require(bytes <= std::uint64_t{std::numeric_limits<std::int64_t>::max()},
                  "{}: its files are together longer than any disk", source);
  };
  for (const auto& entry : object.array("files")) {
    manifest.files.push_back(read_file_entry(Object(entry, source + ": \"files\"")));
    const auto& file = manifest.files.back();
    base::require(names.insert(file.name).second, "{}: file {} is listed twice", source, json_text(file.name));
    add_bytes(file.bytes);
  }
  if (json.contains("companions"))
    for (const auto& entry : object.array("companions")) {
      manifest.companions.push_back(read_companion(Object(entry, source + ": \"companions\"")));
      const auto& name = manifest.companions.back().name;
      base::require(name != manifest_name && names.insert(name).second, "{}: file {} is listed twice", source,
                    json_text(name));
      add_bytes(manifest.companions.back().bytes);
    }
  names.clear();
  for (const auto& tensor : object.array("tensors")) {
    manifest.tensors.push_back(read_tensor(Object(tensor, source + ": \"tensors\""), source, manifest.files.size()));
    base::require(names.insert(manifest.tensors.back().parameter.fqn).second, "{}: tensor {} is listed twice", source,
                  json_text(manifest.tensors.back().parameter.fqn));
  }
  return manifest;
}

Manifest read_manifest(const base::Path& folder) {
  const auto path = folder / manifest_name;
  return parse_manifest(read_sealed(path, manifest_limit), path.string());
}

}  // namespace tessera::checkpoint
