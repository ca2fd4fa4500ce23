// If this failed, ranks would share a GPU, compute in different places, or use the CPU beside an idle GPU.
#include "train/device_choice.h"

#include <fmt/format.h>

#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::train {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using config::Backend;
using config::DeviceType;
using device::Place;
using Lists = std::vector<std::vector<std::int64_t>>;

// Ranks by host, such as {{0, 1}, {2}}.
Hosts hosts_of(const Lists& ranks) {
  Hosts hosts;
  for (std::size_t h = 0; h < ranks.size(); ++h)
    hosts.all.push_back({.name = fmt::format("node{}", h), .ranks = ranks[h]});
  return hosts;
}

// `count` GPUs of a host, which differ from those of other hosts.
std::vector<std::int64_t> gpus_of(std::int64_t host, std::int64_t count) {
  std::vector<std::int64_t> gpus;
  for (std::int64_t g = 0; g < count; ++g) gpus.push_back(1000 * (host + 1) + 7 * g);
  return gpus;
}

TEST_CASE("every rank has its own GPU if each host has as many as ranks, and else the host is named") {
  for (std::int64_t hosts = 1; hosts <= 3; ++hosts)
    for (std::int64_t each = 1; each <= 5; ++each)
      for (std::int64_t gpus = 1; gpus <= 6; ++gpus) {
        CAPTURE(hosts, each, gpus);
        Lists ranks, seen;
        for (std::int64_t h = 0; h < hosts; ++h) {
          ranks.emplace_back();
          for (std::int64_t r = 0; r < each; ++r) {
            ranks.back().push_back(h * each + r);
            seen.push_back(gpus_of(h, gpus));
          }
        }
        const auto assignment = assign_gpus(hosts_of(ranks), seen);
        if (gpus < each) {
          CHECK_THAT(assignment.problem, StartsWith(fmt::format("{} ranks on node0 see {} GPU", each, gpus)));
          continue;
        }
        CHECK(assignment.problem.empty());
        for (std::int64_t rank = 0; rank < hosts * each; ++rank)
          CHECK(assignment.gpus.at(static_cast<std::size_t>(rank)) == rank % each);
      }
}

TEST_CASE("ranks that take turns over the hosts count on their own host") {
  const auto assignment = assign_gpus(hosts_of({{0, 2, 4}, {1, 3}}),
                                      {gpus_of(0, 3), gpus_of(1, 2), gpus_of(0, 3), gpus_of(1, 2), gpus_of(0, 3)});
  CHECK(assignment.gpus == std::vector<std::int64_t>{0, 0, 1, 1, 2});
}

TEST_CASE("ranks to each of which the launcher shows another GPU take that one") {
  CHECK(assign_gpus(hosts_of({{0, 1, 2}}), {{30}, {10}, {20}}).gpus == std::vector<std::int64_t>{0, 0, 0});
  CHECK(assign_gpus(hosts_of({{0, 1}}), {{10, 20}, {20, 10}}).gpus == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("the reason why not every rank gets a GPU is told with the way out") {
  CHECK(assign_gpus(hosts_of({{0}, {1, 2}}), {{1}, {5}, {5}}).problem ==
        "2 ranks on node1 see 1 GPU in all, and each needs its own; start at most 1 there, or use "
        "--train.accelerator.device cpu");
  CHECK(assign_gpus(hosts_of({{0, 1}, {2}}), {{1, 2}, {1, 2}, {}}).problem ==
        "rank 2 on node1 sees no GPU; give each host GPUs, or use --train.accelerator.device cpu");
}

config::TrainSettings asking(DeviceType device, Backend backend = Backend::automatic) {
  config::TrainSettings train;
  train.accelerator.device = device;
  train.accelerator.backend = backend;
  return train;
}

const device::Gpus none{.missing = "there is no driver", .way_out = "install one", .identities = {}};

device::Gpus some(std::int64_t count) {
  return {.count = count, .missing = {}, .way_out = {}, .identities = gpus_of(0, count)};
}

// Of the ranks of this test, all on one host.
DeviceChoice choose(const config::TrainSettings& train, const device::Gpus& found) {
  Hosts hosts = hosts_of({{}});
  for (std::int64_t rank = 0; rank < test::world().size(); ++rank) hosts.all[0].ranks.push_back(rank);
  return choose_device(train, found, hosts, *test::world().communicator());
}

std::string refusal(const config::TrainSettings& train, const device::Gpus& found) {
  try {
    static_cast<void>(choose(train, found));
  } catch (const comm::AgreedError& error) {
    return error.code() == base::ExitCode::bad_input ? error.what() : "another exit code";
  }
  return "not refused";
}

TEST_CASE("cuda and auto give each rank the GPU of its place on the host, and NCCL unless MPI is asked for") {
  for (const auto device : {DeviceType::automatic, DeviceType::cuda}) {
    const auto choice = choose(asking(device), some(test::world().size() + 1));
    CHECK_ON_ALL(choice.place == Place::cuda);
    CHECK_ON_ALL(choice.gpu == test::world().rank());
    CHECK_ON_ALL(choice.backend == Backend::nccl);
    CHECK_ON_ALL(choose(asking(device, Backend::mpi), some(test::world().size())).backend == Backend::mpi);
  }
}

TEST_CASE("cpu asks for no GPU; auto takes the CPU where there is none, and says why") {
  CHECK(!wants_gpus(asking(DeviceType::cpu)));
  CHECK(wants_gpus(asking(DeviceType::automatic)));
  CHECK(wants_gpus(asking(DeviceType::cuda)));
  const auto cpu = choose(asking(DeviceType::cpu), some(9));
  CHECK_ON_ALL((cpu.place == Place::cpu && cpu.backend == Backend::mpi && cpu.reason.empty()));
  const auto automatic = choose(asking(DeviceType::automatic), none);
  CHECK_ON_ALL((automatic.place == Place::cpu && automatic.reason == "there is no driver"));
}

TEST_CASE("auto in float64 is the CPU, without a look for GPUs") {
  auto train = asking(DeviceType::automatic);
  train.precision = config::Precision::float64;
  CHECK(!wants_gpus(train));
  const auto choice = choose(train, some(9));
  CHECK_ON_ALL(choice.place == Place::cpu);
  CHECK_ON_ALL(choice.reason == "train.precision = float64 is the CPU's reference mode");
}

TEST_CASE("all ranks refuse cuda without a GPU, and NCCL on the CPU, with what is missing and how to get it") {
  const std::string speaker = test::world().size() > 1 ? "rank 0: " : "";
  CHECK(refusal(asking(DeviceType::cuda), none) == speaker +
                                                       "train.accelerator.device = cuda, but there is no driver; "
                                                       "install one, or use --train.accelerator.device cpu");
  CHECK(refusal(asking(DeviceType::automatic, Backend::nccl), none) ==
        "train.accelerator.backend = nccl moves memory of GPUs, and the device is the CPU, since there is no driver; "
        "install one, or use mpi");
}

TEST_CASE("with too few GPUs cuda is refused and auto is the CPU, on all ranks") {
  const auto ranks = test::world().size();
  if (ranks == 1) return;
  const auto problem = fmt::format("{} ranks on node0 see {} GPU", ranks, ranks - 1);
  CHECK_THAT(refusal(asking(DeviceType::cuda), some(ranks - 1)),
             StartsWith("train.accelerator.device = cuda, but " + problem));
  const auto automatic = choose(asking(DeviceType::automatic), some(ranks - 1));
  CHECK_ON_ALL(automatic.place == Place::cpu);
  CHECK_THAT(automatic.reason, StartsWith(problem));
  // Only the last rank has none.
  const auto found = test::world().rank() == ranks - 1 ? none : some(ranks);
  const auto last = ranks - 1;
  CHECK_THAT(refusal(asking(DeviceType::cuda), found),
             StartsWith(fmt::format("rank {}: train.accelerator.device", last)));
  CHECK_THAT(choose(asking(DeviceType::automatic), found).reason,
             StartsWith(fmt::format("rank {} on node0 sees no GPU", last)));
}

TEST_CASE("auto is a precision by name once the place is known, any other stays what it is") {
  CHECK(resolve_precision(config::Precision::automatic, Place::cpu) == config::Precision::float32);
  CHECK(resolve_precision(config::Precision::automatic, Place::cuda) == config::Precision::bfloat16);
  for (const auto place : {Place::cpu, Place::cuda})
    for (const auto given : {config::Precision::float32, config::Precision::bfloat16, config::Precision::float64})
      CHECK(resolve_precision(given, place) == given);
}

}  // namespace
}  // namespace tessera::train
