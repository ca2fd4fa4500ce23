#include "checkpoint/huggingface_import.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/companions.h"
#include "checkpoint/float_type.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/huggingface_layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/shard_files.h"
#include "comm/agreement.h"

namespace tessera::checkpoint {
namespace {

constexpr std::uint64_t config_limit = 16 << 20;

base::Path config_path(const base::Path& source, const base::Path& asked) {
  std::error_code ignored;
  auto path = asked.empty() ? source : asked;
  if (std::filesystem::is_directory(path, ignored)) return path / "config.json";
  return asked.empty() ? source.parent_path() / "config.json" : path;
}

layout::Box box_of_rank(const base::ParameterSpec& parameter, std::int64_t rank, std::int64_t ranks) {
  auto box = layout::whole_box(parameter.shape);
  box.dims.front() = layout::block_of(parameter.shape.front(), ranks, rank);
  return box;
}

class Import {
 public:
  Import(const base::Path& source, const ImportOptions& options)
      : text_(base::read_file(config_path(source, options.config), config_limit)),
        config_(config_of(text_, config_path(source, options.config).string())),
        parameters_(parameters_of(config_)),
        stored_(source, parameters_),
        type_(options.type),
        companions_(companions_beside(source)) {
    warn_of_shards_beside(source);
  }

  // Returns the indices of the parameters of which `rank` writes a part.
  [[nodiscard]] std::vector<std::size_t> tensors_of(std::int64_t rank, std::int64_t ranks) const {
    std::vector<std::size_t> indices;
    for (std::size_t k = 0; k < parameters_.size(); ++k)
      if (box_of_rank(parameters_[k], rank, ranks).elements() > 0) indices.push_back(k);
    return indices;
  }

  // Writes this rank's file. The result has a hash for its part of each parameter; it has 0 bytes if the rank has none.
  [[nodiscard]] WrittenFile write(std::int64_t rank, std::int64_t ranks, const base::Path& folder,
                                  base::FileSystem& disk) const {
    const auto indices = tensors_of(rank, ranks);
    if (indices.empty()) return with_hashes_at({}, {}, parameters_.size());
    std::vector<OutgoingTensor> outgoing;
    for (const auto k : indices)
      outgoing.push_back(
          {stored_name(master_state, parameters_[k].fqn), type_, box_of_rank(parameters_[k], rank, ranks).shape()});
    SafetensorsWriter writer(folder / shard_file_name(rank), std::move(outgoing), {{"format", "pt"}}, disk);
    for (const auto k : indices)
      for (const auto& part : consecutive_parts(box_of_rank(parameters_[k], rank, ranks), streamed_elements)) {
        const auto content = read_box(stored_.parameter(parameters_[k].fqn), part, scalar_type(type_));
        writer.write({static_cast<const std::byte*>(content.const_data_ptr()), content.nbytes()});
      }
    return with_hashes_at(writer.finish(), indices, parameters_.size());
  }

  // `written`: of all ranks.
  [[nodiscard]] Manifest manifest(const std::vector<WrittenFile>& written) const {
    Manifest manifest{{}, "", "null", config_json_with(text_, config_, stored_type()), {}, {}};
    for (const auto& parameter : parameters_) manifest.tensors.push_back({parameter, type_, {master_state}, {}});
    add_files_and_pieces(manifest, written, [&](std::size_t k, std::int64_t rank) {
      return box_of_rank(parameters_[k], rank, std::ssize(written));
    });
    manifest.companions = entries_of(companions_);
    manifest.layout = manifest.files.size() == 1 ? "whole parameters in one file"
                                                 : fmt::format("blocks of dim 0 in {} files", manifest.files.size());
    return manifest;
  }

  [[nodiscard]] const Companions& companions() const { return companions_; }

  // The number of tensors of the source whose type is wider than the masters'.
  [[nodiscard]] std::int64_t rounded_tensors() const {
    std::int64_t count = 0;
    for (const auto& file : stored_.files())
      for (const auto& tensor : file->tensors()) count += bits(tensor.type) > bits(type_) ? 1 : 0;
    return count;
  }

 private:
  [[nodiscard]] std::optional<ElementType> stored_type() const {
    std::optional<ElementType> type;
    for (const auto& file : stored_.files())
      for (const auto& tensor : file->tensors()) {
        if (type && *type != tensor.type) return std::nullopt;
        type = tensor.type;
      }
    return type;
  }

  std::string text_;  // of config.json
  architecture::ModelConfig config_;
  std::vector<base::ParameterSpec> parameters_;
  HuggingFaceCheckpoint stored_;
  ElementType type_;
  Companions companions_;
};

}  // namespace

ImportedWeights import_huggingface(const base::Path& source, const base::Path& target, const ImportOptions& options,
                                   comm::Communicator& world, base::FileSystem& files) {
  std::optional<Import> import;
  std::optional<NewFolder> folder;  // rank 0's
  base::Path unfinished;
  comm::agree_on(world, [&] {
    base::require(options.type == ElementType::F32 || options.type == ElementType::F64,
                  "a checkpoint's weights are float32 or float64, not {}", torch_name(options.type));
    import.emplace(source, options);
    unfinished = unfinished_path(folder_path(target));
  });
  comm::agree_on(world, [&] {
    if (world.rank() == 0) folder.emplace(folder_path(target), ExistingFolder::refuse, files);
  });
  WrittenFile own;
  comm::agree_on(world, [&] { own = import->write(world.rank(), world.size(), unfinished, files); });
  const auto written = gather_files(own, world);
  comm::agree_on(world, [&] {
    if (world.rank() != 0) return;
    write_companions(import->companions(), folder->unfinished(), files);
    folder->write(manifest_name, to_text(import->manifest(written)));
    folder->publish();
  });
  ImportedWeights imported{0, import->rounded_tensors()};
  for (const auto bytes : comm::numbers_of_ranks(world, static_cast<std::int64_t>(own.bytes)))
    imported.bytes += static_cast<std::uint64_t>(bytes);
  return imported;
}

}  // namespace tessera::checkpoint
