// The functions that are fuzzed: readers of untrusted files. Each takes any bytes; a finding is a crash, an exception
// other than base::Error, or a std::logic_error that the function throws when its own checks fail. scripts/fuzz.sh
// builds them with libFuzzer; replay_test.cpp runs the committed inputs through them.
#pragma once

#include <array>
#include <string_view>

namespace tessera::test {

// Reads the header, ranges and every byte of every tensor of a safetensors file.
void read_safetensors(std::string_view bytes);
// Reads a manifest; writes an accepted one, reads it again and compares.
void read_manifest(std::string_view bytes);
// Reads the bytes as a sealed file; also seals them, reads them back, and expects a refusal after a flipped bit.
void read_sealed_json(std::string_view bytes);
// Reads JSON, with and without comments, and the places of all its values.
void read_json(std::string_view bytes);
// Reads a JSONL file and every token of its documents.
void read_jsonl(std::string_view bytes);
// Reads a pair of Megatron-Core files and every token of its documents. The input is the length of the .bin (u16,
// little-endian; a length beyond the end means all), then the .idx, then the .bin.
void read_megatron(std::string_view bytes);

struct FuzzTarget {
  std::string_view name;  // also names its corpus
  void (*run)(std::string_view bytes);
};
inline constexpr std::array<FuzzTarget, 6> fuzz_targets{{{"safetensors", &read_safetensors},
                                                         {"manifest", &read_manifest},
                                                         {"sealed_json", &read_sealed_json},
                                                         {"json", &read_json},
                                                         {"jsonl", &read_jsonl},
                                                         {"megatron", &read_megatron}}};

}  // namespace tessera::test
