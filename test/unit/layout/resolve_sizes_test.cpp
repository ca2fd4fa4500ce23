// If this failed, sizes that do not fit the ranks would fail later, in another place, or with a message that does not
// help.
#include "layout/layout.h"

#include "support/catch.h"

#include <string>
#include <vector>

namespace tessera::layout {
namespace {

using config::AcceleratorSettings;

struct Resolved {
  LayoutSizes sizes;
  std::vector<std::string> problems;
};

Resolved resolve(const AcceleratorSettings& settings, std::int64_t world) {
  base::Problems problems;
  LayoutSizes sizes = resolve_sizes(settings, world, problems);
  return {std::move(sizes), problems.list()};
}

AcceleratorSettings with_extra(std::vector<std::string> names, std::vector<std::int64_t> sizes) {
  AcceleratorSettings settings;
  settings.extra_parallel_names = std::move(names);
  settings.extra_parallel_sizes = std::move(sizes);
  return settings;
}

using Texts = std::vector<std::string>;

TEST_CASE("without sizes one replica is sharded over the whole world") {
  const Resolved resolved = resolve({}, 6);
  CHECK(resolved.problems.empty());
  CHECK(resolved.sizes.dp_replicate == 1);
  CHECK(resolved.sizes.dp_shard == 6);
  CHECK(resolved.sizes.world() == 6);
  CHECK(resolved.sizes.extra.empty());
}

TEST_CASE("a given number of replicas leaves the rest to sharding, and the other way round") {
  AcceleratorSettings settings;
  settings.dp_replicate_size = 2;
  settings.ulysses_size = 3;
  CHECK(resolve(settings, 12).sizes.dp_shard == 2);
  settings = {};
  settings.dp_shard_size = 4;
  CHECK(resolve(settings, 12).problems.empty());
  CHECK(resolve(settings, 12).sizes.dp_replicate == 3);
}

TEST_CASE("placements may be left out: all innermost") {
  AcceleratorSettings settings = with_extra({"ep", "emb"}, {2, 4});
  const Resolved all = resolve(settings, 4);
  REQUIRE(all.sizes.extra.size() == 2);
  CHECK(all.sizes.extra[0].placement == GridPlacement::innermost);
  CHECK(all.sizes.extra[1].placement == GridPlacement::innermost);
  settings.extra_parallel_placement_innermost = {true, false};
  const Resolved second_outer = resolve(settings, 4);
  CHECK(second_outer.sizes.extra[0].placement == GridPlacement::innermost);
  CHECK(second_outer.sizes.extra[1].placement == GridPlacement::outer);
  CHECK(second_outer.sizes.extra[1].name == "emb");
  CHECK(second_outer.sizes.extra[1].size == 4);
}

TEST_CASE("a group that does not divide its ranks is refused with the sizes that do") {
  CHECK(resolve(with_extra({"ep"}, {3}), 8).problems == Texts{"train.accelerator.extra_parallel_sizes[0] = 3 (ep) does "
                                                              "not divide 8 data-parallel ranks; use 1, 2, 4 or 8"});
  CHECK(
      resolve(with_extra({"emb"}, {3}), 4).problems ==
      Texts{
          "train.accelerator.extra_parallel_sizes[0] = 3 (emb) does not divide 4 data-parallel ranks; use 1, 2 or 4"});
  CHECK(
      resolve(with_extra({"ep"}, {8}), 4).problems ==
      Texts{"train.accelerator.extra_parallel_sizes[0] = 8 (ep) does not divide 4 data-parallel ranks; use 1, 2 or 4"});
  CHECK(resolve(with_extra({"ep"}, {2}), 1).problems ==
        Texts{"train.accelerator.extra_parallel_sizes[0] = 2 (ep) does not divide 1 data-parallel rank; use 1"});
}

TEST_CASE("a group of no or fewer ranks is refused with the sizes that fit") {
  for (const std::int64_t size : {0, -2}) {
    const Resolved resolved = resolve(with_extra({"ep", "emb"}, {2, size}), 4);
    CHECK(resolved.problems == Texts{"train.accelerator.extra_parallel_sizes[1] = " + std::to_string(size) +
                                     " (emb) is less than 1 and cannot divide 4 data-parallel ranks; use 1, 2 or 4"});
  }
}

TEST_CASE("the ranks that a group has to divide are those of one replica") {
  AcceleratorSettings settings = with_extra({"ep"}, {4});
  settings.dp_replicate_size = 2;
  CHECK(resolve(settings, 4).problems == Texts{"train.accelerator.extra_parallel_sizes[0] = 4 (ep) does not divide 2 "
                                               "data-parallel ranks of one replica; use 1 or 2"});
}

TEST_CASE("all problems are told at once") {
  CHECK(resolve(with_extra({"ep", "emb", "ep"}, {3, 5, 2}), 4).problems.size() == 3);
}

TEST_CASE("dense sizes that do not divide the ranks are refused with those that do") {
  AcceleratorSettings settings;
  settings.dp_replicate_size = 3;
  CHECK(resolve(settings, 8).problems ==
        Texts{"train.accelerator.dp_replicate_size = 3 does not divide 8 ranks; use 1, 2, 4 or 8"});
  settings.tp_size = 2;
  CHECK(resolve(settings, 8).problems == Texts{"train.accelerator.dp_replicate_size = 3 and train.accelerator.tp_size "
                                               "= 2 make 6, which does not divide 8 ranks; use 1, 2, 4 or 8"});
  settings.dp_replicate_size = 16;
  CHECK(resolve(settings, 8).problems ==
        Texts{"train.accelerator.dp_replicate_size = 16 and train.accelerator.tp_size = 2 make more than the 8 ranks "
              "that there are; use less, or start more ranks"});
}

TEST_CASE("dense sizes that are all given have to make the world") {
  AcceleratorSettings settings;
  settings.dp_replicate_size = 2;
  settings.dp_shard_size = 2;
  CHECK(resolve(settings, 4).problems.empty());
  CHECK(resolve(settings, 8).problems ==
        Texts{"train.accelerator.dp_replicate_size = 2 and train.accelerator.dp_shard_size = 2 make 4, which is not 8, "
              "the number of ranks; set train.accelerator.dp_shard_size to -1 (the rest), or start 4 ranks"});
  settings.dp_replicate_size = 1;
  settings.dp_shard_size = 1;
  CHECK(resolve(settings, 2).problems == Texts{"the product of all sizes, 1, is not 2, the number of ranks; set "
                                               "train.accelerator.dp_shard_size to -1 (the rest), or start 1 ranks"});
  settings.dp_shard_size = 3;
  CHECK(resolve(settings, 2).problems == Texts{"train.accelerator.dp_shard_size = 3 is more than the 2 ranks that "
                                               "there are; use less, or start more ranks"});
}

TEST_CASE("a dense size below 1 is refused, and -1 only fills replicas or shards") {
  AcceleratorSettings settings;
  settings.tp_size = -1;
  settings.dp_shard_size = 0;
  CHECK(resolve(settings, 8).problems ==
        Texts{"train.accelerator.dp_shard_size = 0 is not a number of ranks; use 1 or more, or -1 for what the other "
              "sizes leave",
              "train.accelerator.tp_size = -1 is not a number of ranks; use 1 or more"});
}

TEST_CASE("sizes whose product would not fit into 64 bits are refused, not wrapped round") {
  AcceleratorSettings settings;
  settings.pp_size = std::int64_t{1} << 62;
  settings.tp_size = 8;
  CHECK(resolve(settings, 8).problems.size() == 1);
}

TEST_CASE("names that are no identifiers or would collide with a group are refused") {
  for (const char* const name : {"", "1ep", "e p", "ep+emb", "ep.x", "fsdp", "data", "world", "dp", "tp", "dense",
                                 "ep_fsdp", "a_replicate", "a_tp"}) {
    INFO(name);
    CHECK(resolve(with_extra({name}, {1}), 4).problems.size() == 1);
  }
  CHECK(resolve(with_extra({"wing2", "PLE", "my_group"}, {2, 1, 4}), 4).problems.empty());
}

TEST_CASE("a repeated name is refused once") {
  CHECK(resolve(with_extra({"wing", "wing"}, {2, 2}), 4).problems ==
        Texts{"train.accelerator.extra_parallel_names[1] = \"wing\" repeats an earlier name; use each name once"});
}

}  // namespace
}  // namespace tessera::layout
