// If this failed, parts of a tensor would be written in the wrong order, or a file would be larger than its limit.
#include "checkpoint/huggingface_layout.h"

#include "support/catch.h"

namespace tessera::checkpoint {
namespace {

TEST_CASE("consecutive parts are a box's elements in row-major order, none larger than was asked for") {
  const std::vector<layout::Box> boxes{{{{0, 11}}},
                                       {{{2, 7}, {0, 3}}},
                                       {{{4, 5}, {0, 7}, {0, 5}}},
                                       {{{0, 3}, {0, 4}, {0, 5}}},
                                       {{{0, 1}, {0, 1}, {0, 1}}},
                                       {{{0, 3}, {2, 2}, {0, 5}}},
                                       {{}}};
  for (const auto& box : boxes)
    for (const std::int64_t most : {1, 2, 3, 7, 20, 1000}) {
      std::vector<std::vector<std::int64_t>> expected, found;
      const auto walk = [](const layout::Box& b, std::vector<std::vector<std::int64_t>>& list) {
        if (b.elements() == 0) return;
        std::vector<std::int64_t> at;
        for (const auto& block : b.dims) at.push_back(block.begin);
        while (true) {
          list.push_back(at);
          std::size_t d = at.size();
          while (d > 0 && ++at[d - 1] == b.dims[d - 1].end) {
            at[d - 1] = b.dims[d - 1].begin;
            --d;
          }
          if (d == 0) return;
        }
      };
      walk(box, expected);
      for (const auto& part : consecutive_parts(box, most)) {
        CHECK(part.elements() >= 1);
        CHECK(part.elements() <= most);
        walk(part, found);
      }
      CHECK(found == expected);
    }
}

TEST_CASE("files are filled up to the limit, and a larger tensor stands alone") {
  const auto tensor = [](const std::string& name, std::int64_t elements) {
    return HuggingFaceTensor{name, {elements}, {}};
  };
  const auto files =
      huggingface_files({tensor("z", 3), tensor("y", 7), tensor("large", 11), tensor("x", 1)}, ElementType::BF16, 20);
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "model-00001-of-00003.safetensors");
  CHECK(files[0].tensors.front().name == "large");
  CHECK(files[1].tensors.front().name == "y");  // by name within a file
  CHECK(files[1].tensors.back().name == "z");
  CHECK(data_bytes(files[1], ElementType::BF16) == 20);
  CHECK(files[2].tensors.front().name == "x");
  const auto one = huggingface_files({tensor("z", 3), tensor("y", 7)}, ElementType::F64, 80);
  REQUIRE(one.size() == 1);
  CHECK(one[0].name == "model.safetensors");
}

}  // namespace
}  // namespace tessera::checkpoint
