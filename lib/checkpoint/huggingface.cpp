#include "checkpoint/huggingface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sampled_hash.h"

namespace tessera::checkpoint {
namespace {

using Shape = std::vector<std::int64_t>;
using Files = std::vector<std::unique_ptr<SafetensorsFile>>;

constexpr const char* embedding_name = "model.embed_tokens.weight";
constexpr const char* head_name = "lm_head.weight";
constexpr const char* file_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";
constexpr std::string_view expert_mark = ".experts.";

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Opens the shards that the index lists, and compares the list with their tensors.
Files open_shards(const base::Path& index, base::Problems& problems) {
  const base::JsonDocument document = base::parse_json_file(index, base::JsonComments::refused);
  const nlohmann::json& value = document.value();
  base::require(value.is_object() && value.contains("weight_map") && value["weight_map"].is_object(),
                "{} has no object \"weight_map\"", index.string());
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : value["weight_map"].items()) {
    const std::string place = document.place_of("/weight_map/" + base::escape_pointer(tensor));
    base::require(shard.is_string(), "{}: the file of \"{}\" is not a text", place, tensor);
    const auto& file = shard.get_ref<const std::string&>();
    base::require(!file.empty() && base::Path(file).filename() == file && file != "." && file != "..",
                  "{}: \"{}\" is not the name of a file beside the index", place, file);
    shard_of.emplace(tensor, file);
    shards.insert(file);
  }
  Files files;
  for (const std::string& shard : shards) {
    files.push_back(std::make_unique<SafetensorsFile>(index.parent_path() / shard));
    for (const StoredTensor& tensor : files.back()->tensors()) {
      const auto it = shard_of.find(tensor.name);
      if (it == shard_of.end() || it->second != shard)
        problems.add("{} holds {}, which the index does not list there", shard, tensor.name);
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    const auto file = files.begin() + std::distance(shards.begin(), shards.find(shard));
    if ((*file)->find(tensor) == nullptr)
      problems.add("the index lists {} in {}, which does not hold it", tensor, shard);
  }
  return files;
}

struct Located {
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

// The parts of a name around the number of an expert: "mlp.experts.", 7, "gate_proj".
struct ExpertStack {
  std::string prefix;      // "model.layers.3.mlp.experts."
  std::string projection;  // "gate_proj"
};

std::optional<ExpertStack> expert_stack(const base::ParameterSpec& parameter) {
  if (!is_expert_stack(parameter)) return std::nullopt;
  const std::size_t begin = parameter.fqn.rfind(expert_mark) + expert_mark.size();
  return ExpertStack{parameter.fqn.substr(0, begin), parameter.fqn.substr(begin)};
}

// Finds the tensors of each parameter, and marks them as used, so that the others can be reported as unknown.
class Matcher {
 public:
  Matcher(const Files& files, base::Problems& problems) : problems_(problems) {
    for (const auto& file : files)
      for (const StoredTensor& tensor : file->tensors())
        tensors_.try_emplace(tensor.name, Located{file.get(), &tensor});
  }

  StoredParameter match(const base::ParameterSpec& parameter) {
    StoredParameter found{parameter, {}};
    if (tensors_.contains(parameter.fqn)) {
      add_whole(found, parameter.fqn);
    } else if (const auto stack = expert_stack(parameter)) {
      if (parameter.fused && tensors_.contains(parameter.fused->tensor))
        add_part(found, *parameter.fused);
      else
        add_experts(found, *stack);
    } else {
      problems_.add("missing: {} {}{}", parameter.fqn, text(parameter.shape),
                    parameter.fqn == head_name ? " (if the head is the embedding, set tie_word_embeddings true)" : "");
    }
    return found;
  }

  void check_tied_head(bool tied) {
    const auto head = tensors_.find(head_name);
    const auto embedding = tensors_.find(embedding_name);
    if (!tied || head == tensors_.end() || embedding == tensors_.end()) return;
    const Located &a = head->second, &b = embedding->second;
    used_.insert(head_name);
    const base::DiskWork work("reading", a.file->path().native());
    const auto bytes_a = a.file->bytes(*a.tensor), bytes_b = b.file->bytes(*b.tensor);
    if (a.tensor->type != b.tensor->type || a.tensor->shape != b.tensor->shape || !std::ranges::equal(bytes_a, bytes_b))
      problems_.add("{} differs from {}, but tie_word_embeddings is true: set it to false to train both", head_name,
                    embedding_name);
  }

  void report_unknown() {
    for (const auto& [name, located] : tensors_)
      if (!used_.contains(name)) problems_.add("not a tensor of this model: {} {}", name, text(located.tensor->shape));
  }

 private:
  // Marks the tensor as used. Returns null, and adds a problem, if its shape is not `shape` or its type cannot be read.
  const Located* take(const std::string& name, const Shape& shape) {
    const Located& located = tensors_.at(name);
    if (!used_.insert(name).second) return usable_.contains(name) ? &located : nullptr;
    const StoredTensor& tensor = *located.tensor;
    if (tensor.shape != shape) {
      problems_.add("{} has the shape {}, the model needs {}", name, text(tensor.shape), text(shape));
      return nullptr;
    }
    const ElementType type = tensor.type;
    if (type != ElementType::F32 && type != ElementType::BF16 && type != ElementType::F16 && type != ElementType::F64) {
      problems_.add("{} is of type {}; only F64, F32, F16 and BF16 are read", name, checkpoint::name(type));
      return nullptr;
    }
    usable_.insert(name);
    return &located;
  }

  void add_whole(StoredParameter& found, const std::string& name) {
    const Shape& shape = found.parameter.shape;
    if (const Located* at = take(name, shape))
      found.pieces.push_back({layout::whole_box(shape), at->file, at->tensor, 0, row_major_strides(shape)});
  }

  void add_part(StoredParameter& found, const base::FusedPart& fused) {
    const Shape& shape = found.parameter.shape;
    const Shape stored{shape[0], fused.parts * shape[1], shape[2]};
    if (const Located* at = take(fused.tensor, stored))
      found.pieces.push_back({layout::whole_box(shape), at->file, at->tensor, fused.part * shape[1] * shape[2],
                              row_major_strides(stored)});
  }

  void add_experts(StoredParameter& found, const ExpertStack& stack) {
    const Shape& shape = found.parameter.shape;
    const Shape of_one(shape.begin() + 1, shape.end());
    std::vector<std::int64_t> missing;
    for (std::int64_t expert = 0; expert < shape[0]; ++expert) {
      const std::string name = fmt::format("{}{}.{}.weight", stack.prefix, expert, stack.projection);
      if (!tensors_.contains(name)) {
        missing.push_back(expert);
      } else if (const Located* at = take(name, of_one)) {
        layout::Box box = layout::whole_box(shape);
        box.dims[0] = {expert, expert + 1};
        found.pieces.push_back({std::move(box), at->file, at->tensor, 0, row_major_strides(shape)});
      }
    }
    if (static_cast<std::int64_t>(missing.size()) == shape[0])
      problems_.add("missing: {} {}", found.parameter.fqn, text(shape));
    else if (!missing.empty())
      problems_.add("missing: {}{{{}}}.{}.weight {}", stack.prefix, fmt::join(missing, ","), stack.projection,
                    text(of_one));
  }

  base::Problems& problems_;
  std::map<std::string, Located> tensors_;
  std::set<std::string> used_, usable_;
};

}  // namespace

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool is_expert_stack(const base::ParameterSpec& parameter) {
  return parameter.shape.size() == 3 && parameter.fqn.rfind(expert_mark) != std::string::npos;
}

Files open_huggingface_files(const base::Path& path, base::Problems& problems) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  base::Path chosen = path;
  if (fs::is_directory(path, ignored)) {
    chosen = path / file_name;
    if (!fs::exists(chosen, ignored)) chosen = path / index_name;
    base::require(
        fs::exists(chosen, ignored), "{}: neither model.safetensors nor model.safetensors.index.json is there{}",
        path.string(),
        fs::exists(path / "pytorch_model.bin", ignored) || fs::exists(path / "pytorch_model.bin.index.json", ignored)
            ? "; pytorch_model.bin files are not read: save the model as safetensors"
            : "");
  }
  if (chosen.extension() == ".json") return open_shards(chosen, problems);
  Files files;
  files.push_back(std::make_unique<SafetensorsFile>(chosen));
  return files;
}

void warn_of_shards_beside(const base::Path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error) || !fs::exists(path / file_name, error)) return;
  std::vector<std::string> others;
  for (fs::directory_iterator entries(path, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    const auto name = entries->path().filename().string();
    if (name == index_name || (name != file_name && name.ends_with(".safetensors"))) others.push_back(name);
  }
  if (others.empty()) return;
  std::ranges::sort(others);
  base::log_warning("{}: the weights are those of {}; {} beside it (the first of {}) is not read", path.string(),
                    file_name, others.front(), others.size());
}

std::vector<std::pair<base::Path, std::uint64_t>> fingerprints_of_huggingface(const base::Path& path) {
  constexpr std::uint64_t sampled_bytes = 64 << 10;
  base::Problems problems;
  std::vector<std::pair<base::Path, std::uint64_t>> fingerprints;
  std::error_code ignored;
  for (const auto& file : open_huggingface_files(path, problems)) {
    base::Xxh3Stream hash;
    hash.update(file->header());
    const auto sample = base::sampled_hash(file->path(), sampled_bytes);
    hash.update(std::as_bytes(std::span(&sample, 1)));
    fingerprints.emplace_back(file->path(), hash.digest());
  }
  if (const auto index = path / index_name; std::filesystem::exists(index, ignored))
    fingerprints.emplace_back(index, base::xxh3(base::read_file(index)));
  problems.throw_if_any(path.string());
  return fingerprints;
}

bool is_huggingface_checkpoint(const base::Path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return std::filesystem::exists(path, ignored) &&
           (path.extension() == ".safetensors" || path.extension() == ".json");
  return std::filesystem::exists(path / file_name, ignored) || std::filesystem::exists(path / index_name, ignored);
}

HuggingFaceCheckpoint::HuggingFaceCheckpoint(const base::Path& path,
                                             const std::vector<base::ParameterSpec>& parameters) {
  base::Problems problems;
  files_ = open_huggingface_files(path, problems);
  Matcher matcher(files_, problems);
  bool tied = true;
  for (const base::ParameterSpec& parameter : parameters) {
    tied = tied && parameter.fqn != head_name;
    parameters_.emplace(parameter.fqn, matcher.match(parameter));
  }
  matcher.check_tied_head(tied);
  matcher.report_unknown();
  problems.throw_if_any(path.string());
}

const StoredParameter& HuggingFaceCheckpoint::parameter(const std::string& fqn) const {
  const auto it = parameters_.find(fqn);
  base::expect(it != parameters_.end(), "{} is not a parameter of this checkpoint", fqn);
  return it->second;
}

}  // namespace tessera::checkpoint
