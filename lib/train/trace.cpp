#include "train/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "comm/agreement.h"

namespace tessera::train {
namespace {

using executor::TimelineEvent;

constexpr std::size_t most_events_of_a_rank = 100'000, most_events = 2'000'000;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string lane_name(std::int64_t rank, std::size_t lane) {
  const auto name = lane == 0 ? std::string("compute") : fmt::format("communication {}", lane);
  return fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", rank, lane,
                     quoted(name));
}

// The first lane of communication in which `event` begins after what stands there has ended.
std::size_t lane_of(const TimelineEvent& event, std::vector<double>& ends) {
  if (event.lane == TimelineEvent::Lane::compute) return 0;
  const auto free = std::find_if(ends.begin(), ends.end(), [&](double end) { return end <= event.begin; });
  const auto lane = static_cast<std::size_t>(free - ends.begin());
  if (free == ends.end()) ends.push_back(0);
  ends[lane] = event.end;
  return lane + 1;
}

// Texts of all ranks, in their order, on rank 0; empty on the others.
std::string gather_texts(const std::string& text, comm::Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  constexpr std::size_t word = sizeof(std::int32_t);
  const auto bytes = comm::numbers_of_ranks(world, static_cast<std::int64_t>(text.size()));
  std::vector<std::int64_t> words(ranks, 0), sends(ranks, 0);
  std::vector<std::int32_t> own((text.size() + word - 1) / word), all;
  std::memcpy(own.data(), text.data(), text.size());
  sends[0] = static_cast<std::int64_t>(own.size());
  if (world.rank() == 0) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < ranks; ++k)
      sum += words[k] = (bytes[k] + static_cast<std::int64_t>(word) - 1) / static_cast<std::int64_t>(word);
    all.resize(static_cast<std::size_t>(sum));
  }
  world.all_to_all_rows(own.data(), sends, all.data(), words, 1, comm::ElementType::int32, nullptr)->wait();
  std::string texts;
  const auto* at = reinterpret_cast<const char*>(all.data());
  for (std::size_t k = 0; k < ranks && world.rank() == 0; ++k) {
    if (k > 0) texts += ",\n";
    texts.append(at, static_cast<std::size_t>(bytes[k]));
    at += static_cast<std::size_t>(words[k]) * word;
  }
  return texts;
}

}  // namespace

std::size_t trace_events(std::int64_t ranks) {
  return std::min(most_events_of_a_rank, most_events / static_cast<std::size_t>(ranks));
}

std::string format_trace(const std::vector<TimelineEvent>& events, std::int64_t rank, double origin) {
  auto sorted = events;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<double> ends(1, 0.0);  // of each lane of communication
  std::string text =
      fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank {}"}}}})", rank, rank);
  for (const auto& event : sorted) {
    const auto lane = lane_of(event, ends);
    const auto group = event.group.empty() ? "" : fmt::format(R"(,"args":{{"group":{}}})", quoted(event.group));
    text += fmt::format(
        ",\n"
        R"({{"name":{},"ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{}{}}})",
        quoted(event.name), 1e6 * (event.begin - origin), 1e6 * (event.end - event.begin), rank, lane, group);
  }
  for (std::size_t lane = 0; lane <= ends.size(); ++lane) text += ",\n" + lane_name(rank, lane);
  return text;
}

void write_trace(const base::Path& path, const std::vector<TimelineEvent>& events, double origin,
                 comm::Communicator& world) {
  const auto texts = gather_texts(format_trace(events, world.rank(), origin), world);
  comm::agree_on(world, [&] {
    if (world.rank() == 0) base::write_file_atomically(path, fmt::format("{}\n{}\n]}}\n", trace_begin, texts));
  });
}

}  // namespace tessera::train
