#include "checkpoint/huggingface_import.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/float_type.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/huggingface_layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_writer.h"
#include "comm/agreement.h"

namespace tessera::checkpoint {
namespace {

constexpr std::uint64_t config_limit = 16 << 20;
constexpr const char* weights = "master";
constexpr std::int64_t numbers_before_hashes = 2;

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
  Import(const base::Path& source, const ImportOptions& options, std::int64_t ranks)
      : text_(base::read_file(config_path(source, options.config), config_limit)),
        config_(config_of(text_, config_path(source, options.config).string())),
        parameters_(parameters_of(config_)),
        stored_(source, parameters_),
        type_(options.type) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) ranks_of_files_.push_back(rank);
    std::erase_if(ranks_of_files_, [&](std::int64_t rank) { return tensors_of(rank, ranks).empty(); });
  }

  // Indices of the parameters of which `rank` writes a part.
  [[nodiscard]] std::vector<std::size_t> tensors_of(std::int64_t rank, std::int64_t ranks) const {
    std::vector<std::size_t> indices;
    for (std::size_t k = 0; k < parameters_.size(); ++k)
      if (box_of_rank(parameters_[k], rank, ranks).elements() > 0) indices.push_back(k);
    return indices;
  }

  // Bytes and header's hash of this rank's file, then the hash of its part of each parameter; zeros where it has none.
  [[nodiscard]] std::vector<std::int64_t> write(std::int64_t rank, std::int64_t ranks, const base::Path& folder,
                                                base::FileSystem& disk) const {
    const auto indices = tensors_of(rank, ranks);
    std::vector<std::int64_t> numbers(parameters_.size() + numbers_before_hashes, 0);
    if (indices.empty()) return numbers;
    std::vector<OutgoingTensor> outgoing;
    for (const auto k : indices)
      outgoing.push_back(
          {stored_name(weights, parameters_[k].fqn), type_, box_of_rank(parameters_[k], rank, ranks).shape()});
    SafetensorsWriter writer(folder / file_name(rank), std::move(outgoing), {{"format", "pt"}}, disk);
    for (const auto k : indices)
      for (const auto& part : consecutive_parts(box_of_rank(parameters_[k], rank, ranks), streamed_elements)) {
        const auto content = read_box(stored_.parameter(parameters_[k].fqn), part, scalar_type(type_));
        writer.write({static_cast<const std::byte*>(content.const_data_ptr()), content.nbytes()});
      }
    const auto written = writer.finish();
    numbers[0] = static_cast<std::int64_t>(written.bytes);
    numbers[1] = static_cast<std::int64_t>(written.header_hash);
    for (std::size_t k = 0; k < indices.size(); ++k)
      numbers[indices[k] + numbers_before_hashes] = static_cast<std::int64_t>(written.hashes[k]);
    return numbers;
  }

  // `numbers`: of all ranks, one after the other, as write() returns them.
  [[nodiscard]] Manifest manifest(const std::vector<std::int64_t>& numbers, std::int64_t ranks) const {
    const auto number = [&](std::int64_t rank, std::size_t k) {
      const auto row = parameters_.size() + numbers_before_hashes;
      return static_cast<std::uint64_t>(numbers[static_cast<std::size_t>(rank) * row + k]);
    };
    Manifest manifest{{},
                      ranks_of_files_.size() == 1 ? "whole parameters in one file"
                                                  : fmt::format("blocks of dim 0 in {} files", ranks_of_files_.size()),
                      "null",
                      config_json_with(text_, config_, stored_type()),
                      {},
                      {}};
    for (const auto rank : ranks_of_files_)
      manifest.files.push_back({file_name(rank), number(rank, 0), number(rank, 1)});
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      ManifestTensor tensor{parameters_[k], type_, {weights}, {}};
      for (std::size_t file = 0; file < ranks_of_files_.size(); ++file) {
        auto box = box_of_rank(parameters_[k], ranks_of_files_[file], ranks);
        if (box.elements() > 0)
          tensor.pieces.push_back({file, std::move(box), {number(ranks_of_files_[file], k + numbers_before_hashes)}});
      }
      manifest.tensors.push_back(std::move(tensor));
    }
    return manifest;
  }

  // Tensors of the source whose type has more digits than the masters'.
  [[nodiscard]] std::int64_t rounded_tensors() const {
    std::int64_t count = 0;
    for (const auto& file : stored_.files())
      for (const auto& tensor : file->tensors()) count += bits(tensor.type) > bits(type_) ? 1 : 0;
    return count;
  }

 private:
  [[nodiscard]] static std::string file_name(std::int64_t rank) { return fmt::format("shard_{:05}.safetensors", rank); }

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
  std::vector<std::int64_t> ranks_of_files_;
};

// Rank 0's: the numbers of all ranks.
std::vector<std::int64_t> gathered(const std::vector<std::int64_t>& own, comm::Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const bool receives = world.rank() == 0;
  std::vector<std::int64_t> send(ranks, 0), receive(ranks, receives ? 1 : 0);
  send[0] = 1;
  std::vector<std::int64_t> all(receives ? ranks * own.size() : 0);
  world.all_to_all_rows(own.data(), send, all.data(), receive, std::ssize(own), comm::ElementType::int64, nullptr)
      ->wait();
  return all;
}

}  // namespace

ImportedWeights import_huggingface(const base::Path& source, const base::Path& target, const ImportOptions& options,
                                   comm::Communicator& world, base::FileSystem& files) {
  std::optional<Import> import;
  std::optional<NewFolder> folder;  // rank 0's
  base::Path unfinished;
  comm::agree_on(world, [&] {
    base::require(options.type == ElementType::F32 || options.type == ElementType::F64,
                  "a checkpoint's weights are float32 or float64, not {}", torch_name(options.type));
    import.emplace(source, options, world.size());
    unfinished = unfinished_path(folder_path(target));
  });
  comm::agree_on(world, [&] {
    if (world.rank() == 0) folder.emplace(folder_path(target), ExistingFolder::refuse, files);
  });
  std::vector<std::int64_t> own;
  comm::agree_on(world, [&] { own = import->write(world.rank(), world.size(), unfinished, files); });
  const auto all = gathered(own, world);
  comm::agree_on(world, [&] {
    if (world.rank() != 0) return;
    folder->write(manifest_name, to_text(import->manifest(all, world.size())));
    folder->publish();
  });
  ImportedWeights imported{0, import->rounded_tensors()};
  for (const auto bytes : comm::numbers_of_ranks(world, own.front()))
    imported.bytes += static_cast<std::uint64_t>(bytes);
  return imported;
}

}  // namespace tessera::checkpoint
