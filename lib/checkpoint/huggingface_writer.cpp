#include "checkpoint/huggingface_writer.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/companions.h"
#include "checkpoint/float_type.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/reader.h"
#include "checkpoint/restore.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/stored_checkpoint.h"
#include "comm/agreement.h"

namespace tessera::checkpoint {
namespace {

constexpr double float16_overflow = 65520;  // the least number that rounds to infinity

// Returns a type that holds every weight of the checkpoint exactly.
ElementType widest_type(const Manifest& manifest) {
  base::require(!manifest.tensors.empty(), "a checkpoint without tensors");
  auto widest = manifest.tensors.front().type;
  for (const auto& tensor : manifest.tensors) {
    if (bits(tensor.type) > bits(widest)) widest = tensor.type;
    if (bits(tensor.type) == bits(widest) && tensor.type != widest) widest = ElementType::F32;  // F16 and BF16
  }
  return widest;
}

ElementType type_without_loss(const Manifest& manifest) {
  const auto widest = widest_type(manifest);
  if (manifest.settings != "null") return widest;
  const auto before = type_in_config(manifest.model);
  return before && bits(*before) < bits(widest) ? *before : widest;
}

bool has_infinite(const at::Tensor& halves) {
  const std::span bits(static_cast<const std::uint16_t*>(halves.const_data_ptr()),
                       static_cast<std::size_t>(halves.numel()));
  return std::ranges::any_of(bits, [](std::uint16_t b) { return (b & 0x7fff) == 0x7c00; });
}

// Returns the files that `rank` writes. Assigns the largest files first, each to the rank with the fewest bytes so far.
std::vector<std::size_t> files_of_rank(const std::vector<HuggingFaceFile>& files, ElementType type, std::int64_t rank,
                                       std::int64_t ranks) {
  std::vector<std::size_t> order(files.size()), own;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t f) { return data_bytes(files[f], type); });
  std::vector<std::uint64_t> load(static_cast<std::size_t>(ranks), 0);
  for (const auto f : order) {
    const auto least = std::ranges::min_element(load);
    *least += data_bytes(files[f], type);
    if (least - load.begin() == rank) own.push_back(f);
  }
  return own;
}

class Conversion {
 public:
  Conversion(const base::Path& checkpoint, const HuggingFaceOptions& options)
      : stored_(checkpoint),
        config_(config_of(stored_.manifest().model, (checkpoint / manifest_name).string() + ": \"model\"")),
        type_(options.type.value_or(type_without_loss(stored_.manifest()))) {
    const auto parameters = parameters_of(config_);
    require_same_parameters(stored_, parameters);
    files_ = huggingface_files(huggingface_tensors(parameters, options.experts), type_, options.max_file_bytes);
  }

  void verify(std::int64_t rank, std::int64_t ranks) { stored_.verify(rank, ranks); }
  [[nodiscard]] ElementType type() const { return type_; }
  [[nodiscard]] const std::vector<HuggingFaceFile>& files() const { return files_; }
  [[nodiscard]] Companions companions() const { return companions_of(stored_.folder(), stored_.manifest()); }
  [[nodiscard]] std::string config_json() const { return config_json_with(stored_.manifest().model, config_, type_); }

  void write(const HuggingFaceFile& file, const base::Path& folder, base::FileSystem& disk) {
    std::vector<OutgoingTensor> outgoing;
    for (const auto& tensor : file.tensors) outgoing.push_back({tensor.name, type_, tensor.shape});
    SafetensorsWriter writer(folder / file.name, std::move(outgoing), {{"format", "pt"}}, disk);
    for (const auto& tensor : file.tensors)
      for (const auto& source : tensor.sources)
        for (const auto& part : consecutive_parts(source.box, streamed_elements)) {
          const auto content = read(source.fqn, part);
          writer.write({static_cast<const std::byte*>(content.const_data_ptr()), content.nbytes()});
        }
    static_cast<void>(writer.finish());
  }

 private:
  at::Tensor read(const std::string& fqn, const layout::Box& box) {
    const auto parts = stored_.parts(fqn, master_state, box);
    auto content = read_box(parts, box, scalar_type(type_));
    if (type_ == ElementType::F16 && has_infinite(content)) {
      const auto exact = read_box(parts, box, at::kDouble);
      for (const auto weight : std::span(exact.const_data_ptr<double>(), static_cast<std::size_t>(exact.numel())))
        base::require(std::isinf(weight) || std::abs(weight) < float16_overflow,
                      "{} has a weight of {}, too large for float16: give bfloat16", fqn, weight);
    }
    return content;
  }

  StoredCheckpoint stored_;
  architecture::ModelConfig config_;
  ElementType type_;
  std::vector<HuggingFaceFile> files_;
};

bool is_model_file(const std::string& name) {
  return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

// Writes the files other than the weights, and takes along those of a folder that is replaced.
void complete(NewFolder& folder, const Conversion& conversion, const HuggingFaceOptions& options,
              HuggingFaceFolder& written) {
  const auto& planned = conversion.files();
  for (const auto& file : planned) written.names.push_back(file.name);
  const auto write = [&](const std::string& name, const std::string& content) {
    folder.write(name, content);
    written.names.push_back(name);
  };
  write("config.json", conversion.config_json());
  if (planned.size() > 1) write("model.safetensors.index.json", index_json(planned, conversion.type()));
  written.others = folder.take_along(options.own);
  for (const auto& [name, content] : conversion.companions())
    if (!std::ranges::binary_search(written.others, name)) write(name, content);
}

}  // namespace

void require_replaceable(const base::Path& target, const std::set<std::string>& own) {
  namespace fs = std::filesystem;
  constexpr const char* way_out = "move it away, or let tessera-convert write the weights elsewhere";
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target, error))) return;
  base::require(fs::is_directory(target, error), "{} exists and is no folder; {}", target.string(), way_out);
  for (fs::directory_iterator entries(target, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    const auto name = entries->path().filename().string();
    base::require(!is_model_file(name) || own.contains(name),
                  "{} was not written there by a run, or was changed since, and would be replaced; {}",
                  entries->path().string(), way_out);
  }
  base::require(!error, "cannot read folder {}: {}", target.string(), error.message());
}

HuggingFaceFolder write_huggingface(const base::Path& checkpoint, const base::Path& target,
                                    const HuggingFaceOptions& options, comm::Communicator& world,
                                    base::FileSystem& files) {
  std::optional<Conversion> conversion;
  std::optional<NewFolder> folder;  // rank 0's
  base::Path unfinished;
  comm::agree_on(world, [&] {
    conversion.emplace(checkpoint, options);
    unfinished = unfinished_path(folder_path(target));
  });
  comm::agree_on(world, [&] {
    if (world.rank() != 0) return;
    if (options.existing == ExistingFolder::replace) require_replaceable(folder_path(target), options.own);
    folder.emplace(folder_path(target), options.existing, files);
  });
  comm::agree_on(world, [&] { conversion->verify(world.rank(), world.size()); });
  const auto& planned = conversion->files();
  comm::agree_on(world, [&] {
    for (const auto f : files_of_rank(planned, conversion->type(), world.rank(), world.size()))
      conversion->write(planned[f], unfinished, files);
  });
  HuggingFaceFolder written{conversion->type(), planned.size(), 0, {}, {}};
  comm::agree_on(world, [&] {
    if (world.rank() != 0) return;
    complete(*folder, *conversion, options, written);
    folder->publish();
  });
  for (const auto& file : planned) written.bytes += data_bytes(file, conversion->type());
  return written;
}

}  // namespace tessera::checkpoint
