// A small checkpoint for tests: three files, parameters in one and in several pieces, two states of each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_writer.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {

// Returns element `index` (row-major in the parameter) of a state: a different number for every element of the
// checkpoint.
inline float saved_value(std::size_t tensor, std::size_t state, std::int64_t index) {
  return static_cast<float>(tensor * 1000 + state * 500) + static_cast<float>(index) + 0.25F;
}

// Returns the manifest of the checkpoint, without hashes.
inline Manifest saved_manifest() {
  const auto piece = [](std::size_t file, layout::Box box) { return ManifestPiece{file, std::move(box), {}}; };
  const std::vector<std::string> states{"master", "exp_avg"};
  Manifest m;
  m.progress = {.step = 3, .optimizer_steps = 3, .total_steps = 5, .tokens = 70};
  m.layout = "3 ranks: dp_shard 3";
  m.settings = m.model = "{}";
  m.files = {{"shard_00000.safetensors"}, {"shard_00001.safetensors"}, {"shard_00002.safetensors"}};
  m.tensors = {{{"a", {5, 3}},
                ElementType::F32,
                states,
                {piece(0, {{{0, 2}, {0, 3}}}), piece(1, {{{2, 4}, {0, 3}}}), piece(2, {{{4, 5}, {0, 3}}})}},
               {{"b", {2, 7}}, ElementType::F32, states, {piece(0, {{{0, 2}, {0, 4}}}), piece(2, {{{0, 2}, {4, 7}}})}},
               {{"c", {4}}, ElementType::F32, states, {piece(1, {{{0, 4}}})}}};
  return m;
}

// Returns the content of a piece of a state.
inline std::vector<float> saved_content(const Manifest& m, std::size_t tensor, std::size_t state,
                                        const layout::Box& box) {
  const auto& shape = m.tensors[tensor].parameter.shape;
  const auto columns = shape.size() == 2 ? layout::Block(box.dims[1]) : layout::Block{0, 1};
  const auto width = shape.size() == 2 ? shape[1] : 1;
  std::vector<float> content;
  for (auto row = box.dims[0].begin; row < box.dims[0].end; ++row)
    for (auto column = columns.begin; column < columns.end; ++column)
      content.push_back(saved_value(tensor, state, row * width + column));
  return content;
}

// Writes the files of `m`, fills in their hashes, and writes the manifest.
inline void write_saved(const std::filesystem::path& folder, Manifest m) {
  std::filesystem::create_directories(folder);
  for (std::size_t f = 0; f < m.files.size(); ++f) {
    std::vector<OutgoingTensor> tensors;
    std::vector<std::vector<float>> contents;
    std::vector<ManifestPiece*> pieces;
    for (std::size_t t = 0; t < m.tensors.size(); ++t)
      for (auto& piece : m.tensors[t].pieces)
        for (std::size_t s = 0; s < m.tensors[t].states.size() && piece.file == f; ++s) {
          tensors.push_back(
              {stored_name(m.tensors[t].states[s], m.tensors[t].parameter.fqn), ElementType::F32, piece.box.shape()});
          contents.push_back(saved_content(m, t, s, piece.box));
          pieces.push_back(&piece);
        }
    SafetensorsWriter writer(folder / m.files[f].name, std::move(tensors), {{"format", "pt"}});
    for (const auto& content : contents) writer.write(std::as_bytes(std::span(content)));
    const auto written = writer.finish();
    m.files[f].bytes = written.bytes;
    m.files[f].header_hash = written.header_hash;
    for (std::size_t k = 0; k < pieces.size(); ++k) pieces[k]->hashes.push_back(written.hashes[k]);
  }
  std::ofstream(folder / manifest_name, std::ios::binary) << to_text(m);
}

// Flips a bit in place: a file that is truncated and rewritten goes to the disk at once on some file systems.
inline void flip_bit(const std::filesystem::path& path, std::size_t bit) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto at = static_cast<std::streamoff>(bit / 8);
  char byte = 0;
  file.seekg(at).get(byte);
  file.seekp(at).put(static_cast<char>(byte ^ (1 << (bit % 8))));
  if (!file.flush()) throw std::runtime_error("cannot change " + path.string());
}

}  // namespace tessera::checkpoint
