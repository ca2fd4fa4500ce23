// If this failed, each layer or each turn between two micro-steps would make the rotary tables again.
#include <ATen/record_function.h>

#include <cstring>

#include "gathered.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

std::int64_t cosines = 0;

std::unique_ptr<at::ObserverContext> count_cosines(const at::RecordFunction& function) {
  if (std::strcmp(function.name(), "aten::cos") == 0) ++cosines;
  return nullptr;
}

TEST_CASE("the rotary tables are made once a micro-step, also where two micro-steps take turns and layers recompute") {
  for (const char* overlap : {"false", "true"})
    for (const char* recompute : {"false", "true"}) {
      CAPTURE(overlap, recompute);
      const SmallRun files;
      const auto ranks = std::to_string(4 * world().size());  // four micro-steps of one sequence a rank
      Start start(
          files.settings(joined(groups({{"ep", 2}}),
                                {"--train.accelerator.overlap_exchange", overlap, "--train.global_batch_size", ranks,
                                 "--train.micro_batch_size", "1", "--train.gradient_checkpointing.enable", recompute})),
          world().communicator());
      REQUIRE(start.assembly().blueprint().micro_steps(start.assembly().blueprint().global_batch) == 4);
      cosines = 0;
      const auto observer = at::addThreadLocalCallback(at::RecordFunctionCallback(count_cosines));
      for (const auto& step : start.steps(1)) train_step(start.assembly(), step);
      at::removeCallback(observer);
      CHECK(cosines == 4);
    }
}

}  // namespace
}  // namespace tessera::test
