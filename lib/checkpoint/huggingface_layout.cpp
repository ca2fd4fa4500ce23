#include "checkpoint/huggingface_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"
#include "checkpoint/huggingface.h"

namespace tessera::checkpoint {
namespace {

using Shape = std::vector<std::int64_t>;

layout::Box box_of_expert(const Shape& stack, std::int64_t expert) {
  auto box = layout::whole_box(stack);
  box.dims[0] = {expert, expert + 1};
  return box;
}

void add_separate(std::vector<HuggingFaceTensor>& tensors, const base::ParameterSpec& stack) {
  const auto split = stack.fqn.rfind('.');
  const Shape of_one(stack.shape.begin() + 1, stack.shape.end());
  for (std::int64_t e = 0; e < stack.shape[0]; ++e)
    tensors.push_back({fmt::format("{}.{}{}.weight", stack.fqn.substr(0, split), e, stack.fqn.substr(split)),
                       of_one,
                       {{stack.fqn, box_of_expert(stack.shape, e)}}});
}

// Joins `parts`, the parameters that name one tensor of the fused form.
HuggingFaceTensor fused(std::span<const base::ParameterSpec> parts) {
  const auto& first = parts.front();
  HuggingFaceTensor tensor{first.fused->tensor, first.shape, {}};
  tensor.shape[1] *= first.fused->parts;
  for (std::int64_t e = 0; e < first.shape[0]; ++e)
    for (const auto& part : parts) tensor.sources.push_back({part.fqn, box_of_expert(part.shape, e)});
  for (std::size_t k = 0; k < parts.size(); ++k)
    base::expect(parts[k].fused && parts[k].fused->tensor == tensor.name && parts[k].shape == first.shape &&
                     parts[k].fused->part == static_cast<std::int64_t>(k),
                 "{} is no part {} of {}", parts[k].fqn, k, tensor.name);
  return tensor;
}

std::uint64_t data_bytes(const HuggingFaceTensor& tensor, ElementType type) {
  const auto elements = static_cast<std::uint64_t>(layout::whole_box(tensor.shape).elements());
  return elements * (bits(type) / 8);
}

void add_parts(const layout::Box& box, std::int64_t max_elements, std::vector<layout::Box>& parts) {
  const auto elements = box.elements();
  if (elements == 0) return;
  const auto dim = static_cast<std::size_t>(
      std::ranges::find_if(box.dims, [](const layout::Block& block) { return block.size() > 1; }) - box.dims.begin());
  if (elements <= max_elements || dim == box.dims.size()) {
    parts.push_back(box);
    return;
  }
  const auto rows = std::max<std::int64_t>(1, max_elements / (elements / box.dims[dim].size()));
  for (auto begin = box.dims[dim].begin; begin < box.dims[dim].end; begin += rows) {
    auto part = box;
    part.dims[dim] = {begin, std::min(box.dims[dim].end, begin + rows)};
    add_parts(part, max_elements, parts);
  }
}

}  // namespace

std::vector<HuggingFaceTensor> huggingface_tensors(const std::vector<base::ParameterSpec>& parameters,
                                                   ExpertForm form) {
  std::vector<HuggingFaceTensor> tensors;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const auto& parameter = parameters[k];
    const bool is_stack = is_expert_stack(parameter);
    if (is_stack && form == ExpertForm::separate) {
      add_separate(tensors, parameter);
    } else if (parameter.fused && form == ExpertForm::fused) {
      const auto parts = static_cast<std::size_t>(parameter.fused->parts);
      base::expect(k + parts <= parameters.size(), "parts of {} are missing", parameter.fused->tensor);
      tensors.push_back(fused(std::span(parameters).subspan(k, parts)));
      k += parts - 1;
    } else {
      tensors.push_back({parameter.fqn, parameter.shape, {{parameter.fqn, layout::whole_box(parameter.shape)}}});
    }
  }
  return tensors;
}

std::uint64_t data_bytes(const HuggingFaceFile& file, ElementType type) {
  std::uint64_t sum = 0;
  for (const auto& tensor : file.tensors) sum += data_bytes(tensor, type);
  return sum;
}

std::vector<HuggingFaceFile> huggingface_files(std::vector<HuggingFaceTensor> tensors, ElementType type,
                                               std::uint64_t max_bytes) {
  base::expect(max_bytes > 0, "files of no bytes");
  std::vector<HuggingFaceFile> files;
  HuggingFaceFile filling;
  std::uint64_t filled = 0;
  for (auto& tensor : tensors) {
    const auto bytes = data_bytes(tensor, type);
    if (bytes > max_bytes) {
      files.emplace_back().tensors.push_back(std::move(tensor));
      continue;
    }
    if (filled + bytes > max_bytes) {
      files.push_back(std::exchange(filling, {}));
      filled = 0;
    }
    filled += bytes;
    filling.tensors.push_back(std::move(tensor));
  }
  if (!filling.tensors.empty()) files.push_back(std::move(filling));
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::ranges::sort(files[f].tensors, {}, &HuggingFaceTensor::name);
    files[f].name =
        files.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, files.size());
  }
  return files;
}

std::string index_json(const std::vector<HuggingFaceFile>& files, ElementType type) {
  nlohmann::json json;  // sorts its keys, as HuggingFace does
  std::uint64_t bytes = 0;
  auto& map = json["weight_map"] = nlohmann::json::object();
  for (const auto& file : files) {
    bytes += data_bytes(file, type);
    for (const auto& tensor : file.tensors) map[tensor.name] = file.name;
  }
  json["metadata"] = {{"total_parameters", bytes / (bits(type) / 8)}, {"total_size", bytes}};
  return json.dump(2) + "\n";
}

std::vector<layout::Box> consecutive_parts(const layout::Box& box, std::int64_t max_elements) {
  base::expect(max_elements > 0, "parts of no elements");
  std::vector<layout::Box> parts;
  add_parts(box, max_elements, parts);
  return parts;
}

}  // namespace tessera::checkpoint
