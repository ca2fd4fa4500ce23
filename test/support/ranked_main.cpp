// The main function of the test programs of several ranks. If it were broken, a failure on one rank could go unseen.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <vector>

#include "base/log.h"
#include "support/ranks.h"
#include "support/session.h"

namespace tessera::test {

namespace {

comm::World* the_world = nullptr;

// Passes on whole lines, each with the rank in front.
class RankedLines final : public std::streambuf {
 public:
  RankedLines(std::ostream& stream, std::int64_t rank)
      : stream_(stream), before_(stream.rdbuf(this)), prefix_("[rank " + std::to_string(rank) + "] ") {}
  ~RankedLines() override {
    if (!line_.empty()) write_line();
    stream_.rdbuf(before_);
  }
  RankedLines(const RankedLines&) = delete;
  RankedLines& operator=(const RankedLines&) = delete;

 private:
  int overflow(int character) override {
    line_ += static_cast<char>(character);
    if (character == '\n') write_line();
    return character;
  }
  void write_line() {
    const auto text = prefix_ + line_;
    before_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
    before_->pubsync();
    line_.clear();
  }

  std::ostream& stream_;
  std::streambuf* before_;
  std::string prefix_, line_;
};

comm::WorldOptions options() {
  comm::WorldOptions options{.timeout_s = 120};
  if (const char* bytes = std::getenv("TESSERA_TEST_MESSAGE_BYTES")) options.message_bytes = std::atoll(bytes);
  if (const char* bytes = std::getenv("TESSERA_TEST_READ_BYTES")) options.read_bytes = std::atoll(bytes);
  return options;
}

int worst(int result) {
  std::int32_t code = result < 0 ? -result : result;
  world().communicator()->all_reduce(&code, 1, comm::ElementType::int32, comm::ReduceOperation::max, nullptr)->wait();
  return code;
}

int run_on_this_rank(int argc, char** argv) {
  if (world().size() == 1) return run_tests(argc, argv);
  const RankedLines lines(std::cout, world().rank());
  return worst(run_tests(argc, argv));
}

}  // namespace

comm::World& world() {
  base::expect(the_world != nullptr, "this program has no world of ranks: list RANKS in its tessera_test()");
  return *the_world;
}

std::string failing_ranks(bool ok) {
  std::vector<std::int32_t> failed(static_cast<std::size_t>(world().size()));
  failed[static_cast<std::size_t>(world().rank())] = ok ? 0 : 1;
  world()
      .communicator()
      ->all_reduce(failed.data(), world().size(), comm::ElementType::int32, comm::ReduceOperation::add, nullptr)
      ->wait();
  std::string ranks;
  for (std::size_t k = 0; k < failed.size(); ++k)
    if (failed[k] != 0) ranks += (ranks.empty() ? "" : ", ") + std::to_string(k);
  return ranks.empty() ? "none" : ranks;
}

}  // namespace tessera::test

int main(int argc, char** argv) {
  using namespace tessera;
  const auto launch = comm::read_launch();
  base::set_log(base::LogLevel::info, launch.rank == 0);
  comm::World world(launch, test::options());
  test::the_world = &world;
  return static_cast<int>(world.run([&] { return static_cast<base::ExitCode>(test::run_on_this_rank(argc, argv)); }));
}
