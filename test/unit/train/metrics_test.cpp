// If this failed, metrics.jsonl would have other numbers than the run, or not be valid JSON.
#include "train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "support/about.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/faulty_files.h"
#include "support/temp_folder.h"

namespace tessera::train {
namespace {

using Json = nlohmann::json;

std::vector<Json> lines_of(const base::Path& path) {
  std::vector<Json> lines;
  const std::string text = base::read_file(path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    if (end > at) lines.push_back(base::parse_json_line(text.substr(at, end - at), "metrics.jsonl", 1));
    at = end + 1;
  }
  return lines;
}

std::vector<std::string> keys_of(const std::string& line) {
  std::vector<std::string> keys;
  const auto object = nlohmann::ordered_json::parse(line);
  for (const auto& [key, unused] : object.items()) keys.push_back(key);
  return keys;
}

Json written(const StepMetrics& metrics) {
  const test::TempFolder folder;
  MetricsFile(folder / "m", ExistingMetrics::replace).write(metrics);
  return lines_of(folder / "m").at(0);
}

TEST_CASE("a step's object has the keys of the manual, in their order") {
  const test::TempFolder folder;
  StepMetrics metrics;
  metrics.step = 3;
  metrics.group_norms = {{"dense", 1.0}, {"ep", 2.0}};
  MetricsFile(folder / "m", ExistingMetrics::replace).write(metrics);
  CHECK(keys_of(base::read_file(folder / "m")) ==
        std::vector<std::string>{"kind", "step", "loss", "ce_loss", "aux_loss", "z_loss", "grad_norm",
                                 "grad_norm/dense", "grad_norm/ep", "lr", "tokens", "tokens_per_s", "step_s"});
  metrics.outcome = StepOutcome::skipped;
  CHECK(written(metrics)["skipped"] == true);
}

TEST_CASE("tokens per second are tokens over time, and 0 without time") {
  StepMetrics metrics;
  metrics.tokens = 7;
  CHECK(written(metrics)["tokens_per_s"] == 0.0);
  metrics.step_s = 0.5;
  CHECK(written(metrics)["tokens_per_s"] == 14.0);
}

TEST_CASE("every finite number comes back with the same bits") {
  for (const double value :
       {0.1, 1.0 / 3, -0.0, 3.0, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345678.0, 2.2250738585072014e-308}) {
    StepMetrics metrics;
    metrics.loss = value;
    const Json loss = written(metrics)["loss"];
    REQUIRE(loss.is_number_float());
    CHECK(std::bit_cast<std::uint64_t>(loss.get<double>()) == std::bit_cast<std::uint64_t>(value));
  }
}

TEST_CASE("numbers that are not finite are null and named beside") {
  StepMetrics metrics;
  metrics.loss = std::nan("");
  metrics.ce_loss = std::numeric_limits<double>::infinity();
  metrics.aux_loss = -std::numeric_limits<double>::infinity();
  metrics.group_norms = {{"ep", std::nan("")}};
  const Json json = written(metrics);
  CHECK(json["loss"].is_null());
  CHECK(json["loss/text"] == "nan");
  CHECK(json["ce_loss/text"] == "inf");
  CHECK(json["aux_loss/text"] == "-inf");
  CHECK(json["grad_norm/ep"].is_null());
  CHECK(json["grad_norm/ep/text"] == "nan");
  CHECK_FALSE(json.contains("z_loss/text"));
}

TEST_CASE("losses that were not measured, because no token has a target, are null without a text, not zero") {
  const test::TempFolder folder;
  {
    MetricsFile file(folder / "m", ExistingMetrics::replace);
    file.write(StepMetrics{.step = 1,
                           .group_norms = {{"dense", 0.0}},
                           .lr = 0.5,
                           .tokens = 13,
                           .step_s = 2,
                           .outcome = StepOutcome::without_targets});
    file.write(EvaluationMetrics{.step = 1, .ce_loss = std::nan(""), .tokens = 0, .windows = 3, .seconds = 0.25});
  }
  const auto lines = lines_of(folder / "m");
  CHECK(lines.at(0) == Json::parse(R"({"kind": "step", "step": 1, "loss": null, "ce_loss": null, "aux_loss": null,
      "z_loss": null, "grad_norm": null, "grad_norm/dense": null, "lr": 0.5, "tokens": 13, "tokens_per_s": 6.5,
      "step_s": 2.0, "skipped": true})"));
  CHECK(lines.at(1) == Json::parse(R"({"kind": "evaluation", "step": 1, "eval/ce_loss": null, "eval/perplexity": null,
      "eval/tokens": 0, "eval/windows": 3, "eval/s": 0.25, "eval/data": "0000000000000000"})"));
}

TEST_CASE("evaluations and expert loads are objects of their own") {
  const test::TempFolder folder;
  MetricsFile file(folder / "m", ExistingMetrics::replace);
  file.write(EvaluationMetrics{5, std::log(8.0), 77, 11, 0.25, 0xabc});
  file.write(ExpertLoad{5, {{1, 2, 3}, {4, 0, 2}, {0, 0, 7}, {0, 0, 0}}});
  file.write(ExpertLoad{6, {}});
  const auto lines = lines_of(folder / "m");
  CHECK(lines[0]["eval/perplexity"].get<double>() == test::about(8.0).epsilon(1e-15));
  CHECK(lines[0]["eval/tokens"] == 77);
  CHECK(lines[0]["eval/windows"] == 11);
  CHECK(lines[0]["eval/data"] == "0000000000000abc");
  CHECK(lines[1]["expert_load"] == Json::parse("[[1,2,3],[4,0,2],[0,0,7],[0,0,0]]"));
  CHECK(lines[1]["expert_load_max_over_mean"] == Json::parse("[1.5,2.0,3.0,0.0]"));
  CHECK(lines[2]["expert_load"] == Json::array());
  CHECK(lines[2]["expert_load_max_over_mean"] == Json::array());
}

TEST_CASE("the traffic of all groups is one object") {
  const test::TempFolder folder;
  MetricsFile(folder / "m", ExistingMetrics::replace).write(7, 4, {{"ep", 1024, 0.5, 0.125}, {"ep_fsdp", 8, 0.25, 0}});
  const auto line = lines_of(folder / "m").at(0);
  CHECK(line["step"] == 7);
  CHECK(line["steps"] == 4);
  CHECK(line["traffic/ep/bytes"] == 1024);
  CHECK(line["traffic/ep/s"] == 0.5);
  CHECK(line["traffic/ep/exposed_s"] == 0.125);
  CHECK(line["traffic/ep_fsdp/bytes"] == 8);
}

TEST_CASE("every object says first, and once, of which kind it is") {
  const test::TempFolder folder;
  {
    MetricsFile file(folder / "m", ExistingMetrics::replace);
    file.write(StepMetrics{.step = 1});
    file.write(EvaluationMetrics{.step = 1});
    file.write(ExpertLoad{1, {}});
    file.write(1, 1, {{"ep", 1, 1, 1}});
  }
  std::vector<std::string> kinds;
  for (const auto& line : lines_of(folder / "m")) kinds.push_back(line.at("kind"));
  CHECK(kinds == std::vector<std::string>{"step", "evaluation", "load", "traffic"});
  std::istringstream lines(base::read_file(folder / "m"));
  for (std::string line; std::getline(lines, line);) {
    const auto keys = keys_of(line);
    CHECK(keys.front() == "kind");
    CHECK(std::count(keys.begin(), keys.end(), "kind") == 1);
  }
}

TEST_CASE("a new run replaces the file, a resumed one goes on after a line cut short") {
  const test::TempFolder folder;
  const auto path = folder.write("m", "{\"step\":1}\n{\"step\":2,\"lo");
  MetricsFile(path, ExistingMetrics::keep).write(ExpertLoad{2, {}});
  CHECK(base::read_file(path) ==
        "{\"step\":1}\n{\"step\":2,\"lo\n{\"kind\":\"load\",\"step\":2,\"expert_load\":[],\"expert_load_max_over_"
        "mean\":[]}\n");
  MetricsFile(path, ExistingMetrics::keep).write(ExpertLoad{3, {}});
  CHECK(base::read_file(path) ==
        "{\"step\":1}\n{\"step\":2,\"lo\n{\"kind\":\"load\",\"step\":2,\"expert_load\":[],\"expert_load_max_over_"
        "mean\":[]}\n{\"kind\":\"load\",\"step\":3,"
        "\"expert_load\":[],\"expert_load_max_over_mean\":[]}\n");
  MetricsFile(path, ExistingMetrics::replace).write(ExpertLoad{1, {}});
  CHECK(base::read_file(path) ==
        "{\"kind\":\"load\",\"step\":1,\"expert_load\":[],\"expert_load_max_over_mean\":[]}\n");
  MetricsFile(folder / "new", ExistingMetrics::keep).write(ExpertLoad{1, {}});
  CHECK(lines_of(folder / "new").size() == 1);
}

// A disk on which writing fails, while it is full, after half of the bytes.
struct FullDisk {
  bool is_full = false;
  test::FaultyFiles files{[this](test::FileCall call, const base::Path& path) {
    if (is_full && call == test::FileCall::write) test::fail_like_the_disk(call, path, ENOSPC);
  }};
};

TEST_CASE("lines that a full disk refuses are kept, and stand whole and in order once there is room") {
  const test::TempFolder folder;
  FullDisk disk;
  MetricsFile file(folder / "m", ExistingMetrics::replace, disk.files);
  std::string expected;
  for (std::int64_t step = 1; step <= 9; ++step) {
    disk.is_full = step == 2 || (step >= 5 && step <= 7);
    file.write(ExpertLoad{step, {}});
    expected +=
        fmt::format("{{\"kind\":\"load\",\"step\":{},\"expert_load\":[],\"expert_load_max_over_mean\":[]}}\n", step);
    if (!disk.is_full) CHECK(base::read_file(folder / "m") == expected);
  }
  file.close();
  CHECK(base::read_file(folder / "m") == expected);
}

TEST_CASE("lines that a full disk refuses to the end are an error of the end") {
  const test::TempFolder folder;
  FullDisk disk;
  MetricsFile file(folder / "m", ExistingMetrics::replace, disk.files);
  file.write(ExpertLoad{1, {}});
  disk.is_full = true;
  file.write(ExpertLoad{2, {}});
  CHECK_THAT(test::error_of([&] { file.close(); }, base::ExitCode::rank_failed),
             Catch::Matchers::Contains((folder / "m").string() + ": No space left on device"));
  disk.is_full = false;
  file.write(ExpertLoad{3, {}});
  file.close();
  const auto lines = lines_of(folder / "m");
  REQUIRE(lines.size() == 3);
  CHECK(lines[2]["step"] == 3);
}

TEST_CASE("lines that are kept have a limit") {
  MetricsFile file("/dev/full", ExistingMetrics::keep);
  const ExpertLoad load{1, {std::vector<std::int64_t>(1 << 20, 123456789)}};
  std::size_t kept = 0;
  std::string error;
  for (error = "no error"; error == "no error" && kept < 2 * MetricsFile::kept_limit; kept += (1 << 20) * 10)
    error = test::error_of([&] { file.write(load); }, base::ExitCode::rank_failed);
  CHECK_THAT(error, Catch::Matchers::Contains("/dev/full: No space left on device"));
  CHECK(kept >= MetricsFile::kept_limit);
}

TEST_CASE("a file that cannot be written is an error with its name") {
  const test::TempFolder folder;
  CHECK_THAT(test::error_of([&] { const MetricsFile file(folder / "no/such/m", ExistingMetrics::keep); }),
             Catch::Matchers::Contains("no/such/m"));
}

}  // namespace
}  // namespace tessera::train
