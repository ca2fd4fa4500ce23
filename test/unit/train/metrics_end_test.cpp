// If this failed, a long run could not be resumed, or would lose or repeat lines of its metrics.
#include "train/metrics_end.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::train {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string step_line(std::int64_t step) {
  return fmt::format("{{\"kind\":\"step\",\"step\":{},\"loss\":1.5}}\n", step);
}
std::string load_line(std::int64_t step) {
  return fmt::format("{{\"kind\":\"load\",\"step\":{},\"expert_load\":[[1]]}}\n", step);
}
std::string evaluation_line(std::int64_t step) {
  return fmt::format(
      "{{\"kind\":\"evaluation\",\"step\":{},\"eval/ce_loss\":2.25,\"eval/tokens\":7,\"eval/windows\":3,"
      "\"eval/s\":0.5,\"eval/data\":\"00000000000000ff\"}}\n",
      step);
}
std::string traffic_line(std::int64_t step) {
  return fmt::format("{{\"kind\":\"traffic\",\"step\":{},\"steps\":2,\"traffic/ep/bytes\":1}}\n", step);
}

TEST_CASE("lines after the step are found from the end, whatever their kind, and an unfinished one is passed over") {
  const test::TempFolder folder;
  const auto kept = step_line(1) + load_line(1) + evaluation_line(1) + step_line(2) + load_line(2);
  const auto evaluated = kept + evaluation_line(2);
  const auto path = folder.write("m", evaluated + traffic_line(2) + step_line(3) + load_line(3) + evaluation_line(3) +
                                          "\n" + step_line(4) + "{\"kind\":\"step\",\"st");
  const auto end = read_metrics_end(path, 2);
  CHECK(end.last_step == 2);
  CHECK(end.bytes_to_step == kept.size());
  REQUIRE(end.evaluation.has_value());
  CHECK(end.bytes_to_evaluation == evaluated.size());
  CHECK(end.evaluation->step == 2);
  CHECK(end.evaluation->ce_loss == 2.25);
  CHECK(end.evaluation->tokens == 7);
  CHECK(end.evaluation->windows == 3);
  CHECK(end.evaluation->data_hash == 0xff);
  cut_file(path, end.bytes_to_step);
  CHECK(base::read_file(path) == kept);
}

TEST_CASE("a file that does not reach the step tells how far it goes") {
  const test::TempFolder folder;
  CHECK(read_metrics_end(folder.write("m", step_line(1) + step_line(2)), 5).last_step == 2);
  CHECK(read_metrics_end(folder.write("later", step_line(7) + step_line(8)), 5).last_step == 0);
  CHECK(read_metrics_end(folder.write("empty", ""), 5).last_step == 0);
  CHECK(read_metrics_end(folder.write("unfinished", "{\"st"), 5).bytes_of_lines == 0);
}

TEST_CASE("a file that holds no metrics is refused with the place of its last line") {
  const test::TempFolder folder;
  const auto message = [&](const std::string& text) {
    return test::error_of([&] { static_cast<void>(read_metrics_end(folder.write("m", text), 1)); });
  };
  CHECK_THAT(message("{\"step\":1}\nhello\n"), ContainsSubstring("m: the line from byte 11 is not an object of JSON"));
  CHECK_THAT(message("[1]\n"), ContainsSubstring("the line from byte 0 is not an object with a step"));
  CHECK_THAT(message("{\"kind\":\"step\"}\n"), ContainsSubstring("is not an object with a step"));
}

std::int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_CASE("a file of more than the memory is read from its end and cut in place, in the memory of a few blocks") {
  const test::TempFolder folder;
  const auto path = folder.write("m", "");
  constexpr std::uint64_t hole = 6ULL << 30;  // of zeros, which take no room on the disk
  std::filesystem::resize_file(path, hole);
  const auto kept = "\n" + step_line(100);
  {
    std::ofstream file(path, std::ios::binary | std::ios::app);
    file << kept << evaluation_line(100);
    for (std::int64_t step = 101; step < 20'000; ++step) file << step_line(step) << load_line(step);  // 2 MB
  }
  const auto before = peak_kib();
  const auto end = read_metrics_end(path, 100);
  cut_file(path, end.bytes_to_step);
  CHECK(end.last_step == 100);
  CHECK(end.evaluation.has_value());
  CHECK(std::filesystem::file_size(path) == hole + kept.size());
  CHECK(peak_kib() - before < 256 * 1024);  // a sanitizer keeps what was freed
}

}  // namespace
}  // namespace tessera::train
