// If this failed, groups would have other ranks than the same sizes give in VeOmni, DeepSpeed, Megatron-Core and
// torchtitan, or sizes that fit no layout would be accepted. Expected: fixtures/rank_lists.json (see
// fixtures/README.md).
#include "layout/layout.h"

#include "base/json.h"
#include "layout/block.h"
#include "support/catch.h"
#include "support/group_named.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tessera::layout {
namespace {

using Json = nlohmann::json;

const Json& fixture() {
  static const base::JsonDocument document = base::parse_json_file(
      std::string(TESSERA_SOURCE_DIR) + "/test/unit/layout/fixtures/rank_lists.json", base::JsonComments::refused);
  return document.value();
}

bool needs(const Json& entry, const std::string& what) {
  const std::vector<std::string> list = entry.value("needs", std::vector<std::string>());
  return std::find(list.begin(), list.end(), what) != list.end();
}

LayoutSizes sizes_of(const Json& sizes) {
  LayoutSizes out;
  out.pp = sizes.at("pp");
  out.dp_replicate = sizes.at("dp_replicate");
  out.dp_shard = sizes.at("dp_shard");
  out.ulysses = sizes.at("ulysses");
  out.cp = sizes.at("cp");
  out.tp = sizes.at("tp");
  for (const Json& extra : sizes.at("extra")) {
    ExtraParallel x;
    x.name = extra.at("name");
    x.size = extra.at("size");
    x.placement = extra.at("innermost") ? GridPlacement::innermost : GridPlacement::outer;
    x.folds_tp = extra.value("tp", out.tp) == 1 && out.tp > 1;
    out.extra.push_back(x);
  }
  return out;
}

// Order between groups is free, order inside is not.
std::vector<Group> sorted(std::vector<Group> groups) {
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::vector<Json> all_lists() {
  std::vector<Json> lists = fixture().at("lists");
  for (const Json& more : fixture().at("more_lists")) lists.push_back(more);
  return lists;
}

const Json& groups_of(const Json& entry) {
  static const Json none = Json::object();
  return entry.contains("groups") ? entry.at("groups") : none;
}

Grid grid_of(const Json& axes) {
  std::vector<Axis> out;
  for (const Json& axis : axes) out.push_back({axis.at(0), axis.at(1)});
  return Grid(std::move(out));
}

std::vector<std::string> axes_of(const std::string& key) {
  std::vector<std::string> names;
  std::stringstream stream(key);
  for (std::string name; std::getline(stream, name, '+');) names.push_back(name);
  return names;
}

TEST_CASE("every listed layout forms the listed groups") {
  int compared = 0;
  for (const Json& entry : all_lists()) {
    if (needs(entry, "axis_order")) continue;  // no sizes say this order; the grids are tested below
    INFO("entry " << entry.at("id"));
    const Layout layout(sizes_of(entry.at("sizes")));
    CHECK(layout.world() == entry.at("world"));
    for (const auto& [name, groups] : groups_of(entry).items()) {
      INFO("group " << name);
      CHECK(sorted(layout.groups(test::group_named(layout, name))) == sorted(groups.get<std::vector<Group>>()));
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("axes have the listed sizes, also on a thousand ranks") {
  for (const Json& entry : all_lists()) {
    if (needs(entry, "axis_order")) continue;
    INFO("entry " << entry.at("id"));
    const Layout layout(sizes_of(entry.at("sizes")));
    for (const Json& grid : entry.at("grids"))
      for (const Json& axis : grid) CHECK(layout.group_size(test::group_named(layout, axis.at(0))) == axis.at(1));
  }
}

TEST_CASE("a grid in any order of axes, pipeline inside data or experts inside lanes, forms the listed groups") {
  int compared = 0;
  for (const Json& entry : all_lists()) {
    INFO("entry " << entry.at("id"));
    for (const Json& axes : entry.at("grids")) {
      const Grid grid = grid_of(axes);
      CHECK(grid.size() == entry.at("world"));
      for (const auto& [name, groups] : groups_of(entry).items()) {
        const std::vector<std::string> names = axes_of(name);
        if (!std::all_of(names.begin(), names.end(), [&](const std::string& axis) { return grid.has_axis(axis); }))
          continue;
        INFO("group " << name);
        CHECK(sorted(grid.groups(names)) == sorted(groups.get<std::vector<Group>>()));
        ++compared;
      }
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("positions in the groups give the listed shapes of shards") {
  int compared = 0;
  for (const Json& entry : all_lists()) {
    if (!entry.contains("shape")) continue;
    INFO("entry " << entry.at("id"));
    const Layout layout(sizes_of(entry.at("sizes")));
    const auto owners = GroupId::of(layout.sizes().extra.at(0).name, ExtraAxis::owners),
               fsdp = GroupId::of(owners.extra(), ExtraAxis::fsdp);
    auto shape = entry.at("shape").at("whole").get<std::vector<std::int64_t>>();
    for (std::int64_t rank = 0; rank < layout.world(); ++rank) {
      std::vector<std::int64_t> cut = shape;
      cut[0] = block_of(shape[0], layout.group_size(owners), layout.position(rank, owners)).size();
      CHECK(Json(cut) == entry.at("shape").at("after_dim0"));
      cut[1] = block_of(shape[1], layout.group_size(fsdp), layout.position(rank, fsdp)).size();
      CHECK(Json(cut) == entry.at("shape").at("after_dim1"));
      ++compared;
    }
  }
  CHECK(compared == 32);
}

TEST_CASE("peers that describe one layout in two ways give the same groups") {
  const auto groups_named = [](const Json& reference) {
    for (const Json& entry : fixture().at("lists"))
      if (entry.at("id") == reference.at(0)) {
        const Layout layout(sizes_of(entry.at("sizes")));
        return layout.groups(test::group_named(layout, reference.at(1)));
      }
    FAIL("no entry " << reference);
    return std::vector<Group>();
  };
  for (const Json& identity : fixture().at("identities")) {
    INFO(identity.dump());
    const std::vector<Group> first = sorted(groups_named(identity.at("same").at(0)));
    for (const Json& reference : identity.at("same")) CHECK(sorted(groups_named(reference)) == first);
  }
}

LayoutSizes generated_sizes(const Json& entry) {
  LayoutSizes sizes;
  sizes.dp_replicate = entry.at("dp_replicate");
  sizes.dp_shard = entry.at("dp_shard");
  sizes.ulysses = entry.at("ulysses");
  return sizes;
}

TEST_CASE("replicas, Ulysses and one named group in both placements form the generated groups") {
  for (const Json& entry : fixture().at("generated")) {
    const LayoutSizes dense = generated_sizes(entry);
    INFO("world " << entry.at("world") << ", replicas " << dense.dp_replicate << ", ulysses " << dense.ulysses);
    const Layout main(dense);
    for (const auto& [name, groups] : entry.at("main").items())
      CHECK(sorted(main.groups(test::group_named(main, name))) == sorted(groups.get<std::vector<Group>>()));
    for (const Json& extra : entry.at("extra")) {
      LayoutSizes sizes = dense;
      sizes.extra = {{"x", extra.at("size"), extra.at("innermost") ? GridPlacement::innermost : GridPlacement::outer}};
      const Layout layout(sizes);
      for (const auto& [name, groups] : extra.items())
        if (name.starts_with("x")) {
          INFO(name << " of " << extra.dump());
          CHECK(sorted(layout.groups(test::group_named(layout, name))) == sorted(groups.get<std::vector<Group>>()));
        }
    }
  }
}

TEST_CASE("every size of a named group that is not listed as legal is refused, every legal one accepted") {
  for (const Json& entry : fixture().at("generated")) {
    const std::int64_t world = entry.at("world");
    const auto legal = entry.at("legal_sizes").get<std::set<std::int64_t>>();
    for (std::int64_t size = 1; size <= world; ++size) {
      config::AcceleratorSettings settings;
      settings.dp_replicate_size = entry.at("dp_replicate");
      settings.ulysses_size = entry.at("ulysses");
      settings.extra_parallel_names = {"x"};
      settings.extra_parallel_sizes = {size};
      base::Problems problems;
      const LayoutSizes sizes = resolve_sizes(settings, world, problems);
      INFO("world " << world << ", size " << size);
      CHECK(problems.empty() == legal.contains(size));
      CHECK(sizes.dp_shard == entry.at("dp_shard"));
    }
  }
}

// The few flags that the refusals use, as the settings would hold them.
config::AcceleratorSettings settings_of(const std::string& flags) {
  config::AcceleratorSettings settings;
  std::stringstream stream(flags);
  std::string option;
  for (std::string word; stream >> word;) {
    if (word.starts_with("--train.accelerator."))
      option = word.substr(20);
    else if (option == "extra_parallel_sizes")
      settings.extra_parallel_sizes.push_back(std::stoll(word));
    else if (option == "extra_parallel_names")
      settings.extra_parallel_names.push_back(word);
    else if (option == "extra_parallel_placement_innermost")
      settings.extra_parallel_placement_innermost.push_back(word == "true");
    else if (option == "dp_replicate_size")
      settings.dp_replicate_size = std::stoll(word);
    else if (option == "tp_size")
      settings.tp_size = std::stoll(word);
    else if (option == "pp_size")
      settings.pp_size = std::stoll(word);
    else
      FAIL("unknown flag " << option);
  }
  return settings;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

TEST_CASE("settings that fit no layout are refused once, naming values and the sizes that would fit") {
  int refused = 0;
  for (const Json& entry : fixture().at("refusals")) {
    if (needs(entry, "axis_order")) continue;  // there is no option for an order of axes that could be wrong
    INFO(entry.at("id") << ": " << entry.at("why"));
    base::Problems problems;
    (void)resolve_sizes(settings_of(entry.at("flags")), entry.at("world"), problems);
    REQUIRE(problems.list().size() == 1);
    const std::string& message = problems.list().front();
    INFO(message);
    const std::vector<std::string> words = words_of(message);
    for (const std::string name : entry.at("must_name")) CHECK(std::count(words.begin(), words.end(), name) >= 1);
    if (entry.contains("allowed")) {
      std::vector<std::int64_t> allowed;
      for (const std::string& word : words_of(message.substr(message.find("; use "))))
        if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0)
          allowed.push_back(std::stoll(word));
      CHECK(Json(allowed) == entry.at("allowed"));
    }
    ++refused;
  }
  CHECK(refused == 9);
}

}  // namespace
}  // namespace tessera::layout
