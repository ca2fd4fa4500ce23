// What is fuzzed: readers of files that nobody vouches for. Each takes any bytes; a crash, an exception other than
// base::Error, or a std::logic_error of what it checks itself is a finding. scripts/fuzz.sh builds them with libFuzzer;
// replay_test.cpp runs the committed inputs through them.
#pragma once

#include <array>
#include <string_view>

namespace tessera::test {

// Header, ranges and every byte of every tensor of a safetensors file.
void read_safetensors(std::string_view bytes);
// A manifest; what is accepted is written and read again, and is the same.
void read_manifest(std::string_view bytes);
// A sealed file; and the bytes sealed, which are given back, and refused after a flipped bit.
void read_sealed_json(std::string_view bytes);
// JSON with and without comments; the places of all its values.
void read_json(std::string_view bytes);
// A JSONL file of documents, and every token of each.
void read_jsonl(std::string_view bytes);
// A pair of Megatron-Core and every token of each document. The input is the length of the .bin (u16, little-endian;
// more than there is means all), the .idx, the .bin.
void read_megatron(std::string_view bytes);

struct FuzzTarget {
  std::string_view name;  // of its corpus
  void (*run)(std::string_view bytes);
};
inline constexpr std::array<FuzzTarget, 6> fuzz_targets{{{"safetensors", &read_safetensors},
                                                         {"manifest", &read_manifest},
                                                         {"sealed_json", &read_sealed_json},
                                                         {"json", &read_json},
                                                         {"jsonl", &read_jsonl},
                                                         {"megatron", &read_megatron}}};

}  // namespace tessera::test
