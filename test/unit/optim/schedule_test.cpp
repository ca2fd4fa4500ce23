// If this failed, a run would train with another learning rate than its settings say.
#include "optim/schedule.h"

#include <cmath>

#include "support/about.h"
#include "support/catch.h"

namespace tessera::optim {
namespace {

config::OptimizerSettings settings(config::DecayStyle style) {
  config::OptimizerSettings s;
  s.lr = 1e-2;
  s.lr_min = 1e-3;
  s.lr_start = 2e-3;
  s.lr_warmup_ratio = 0.2;
  s.lr_decay_style = style;
  return s;
}

constexpr double tight = 1e-15;

TEST_CASE("warm-up rises from lr_start in equal steps and ends at lr") {
  for (const auto style : {config::DecayStyle::constant, config::DecayStyle::linear, config::DecayStyle::cosine,
                           config::DecayStyle::wsd}) {
    const auto s = settings(style);
    CHECK(learning_rate(s, 0, 20) == test::about(2e-3).margin(tight));
    CHECK(learning_rate(s, 1, 20) == test::about(4e-3).margin(tight));
    CHECK(learning_rate(s, 3, 20) == test::about(8e-3).margin(tight));
    CHECK(learning_rate(s, 4, 20) == test::about(1e-2).margin(tight));
  }
}

TEST_CASE("without warm-up the first step has the full rate") {
  config::OptimizerSettings s;
  s.lr = 3e-4;
  CHECK(learning_rate(s, 0, 7) == 3e-4);
  CHECK(learning_rate(s, 1000, 7) == 3e-4);
}

TEST_CASE("the number of warm-up steps is rounded down") {
  auto s = settings(config::DecayStyle::constant);
  s.lr_warmup_ratio = 0.29;
  CHECK(learning_rate(s, 1, 9) < s.lr);  // int(2.61) = 2
  CHECK(learning_rate(s, 2, 9) == s.lr);
}

TEST_CASE("linear is a straight line from lr to lr_min, which it reaches at the end and not before") {
  const auto s = settings(config::DecayStyle::linear);
  for (int step = 4; step <= 20; ++step)
    CHECK(learning_rate(s, step, 20) == test::about(1e-2 - 9e-3 * (step - 4) / 16).margin(tight));
  CHECK(learning_rate(s, 8, 20) == test::about(7.75e-3).margin(tight));
  CHECK(learning_rate(s, 12, 20) == test::about(5.5e-3).margin(tight));
  CHECK(learning_rate(s, 25, 20) == test::about(1e-3).margin(tight));
}

TEST_CASE("with a high lr_min, linear falls over the whole decay") {
  auto s = settings(config::DecayStyle::linear);
  s.lr_min = 5e-3;  // half of lr: a line to zero would be cut off half way
  s.lr_warmup_ratio = 0;
  CHECK(learning_rate(s, 0, 10) == 1e-2);
  CHECK(learning_rate(s, 5, 10) == test::about(7.5e-3).margin(tight));
  CHECK(learning_rate(s, 9, 10) == test::about(5.5e-3).margin(tight));
  CHECK(learning_rate(s, 10, 10) == test::about(5e-3).margin(tight));
}

TEST_CASE("linear and cosine end where lr_decay_ratio says") {
  auto linear = settings(config::DecayStyle::linear), cosine = settings(config::DecayStyle::cosine);
  linear.lr_decay_ratio = cosine.lr_decay_ratio = 0.6;
  CHECK(learning_rate(linear, 8, 20) == test::about(1e-3 + 9e-3 * 4 / 8).margin(tight));
  CHECK(learning_rate(linear, 11, 20) == test::about(1e-3 + 9e-3 * 1 / 8).margin(tight));
  CHECK(learning_rate(linear, 12, 20) == test::about(1e-3).margin(tight));
  CHECK(learning_rate(cosine, 8, 20) == test::about(1e-3 + 9e-3 / 2).margin(tight));
  CHECK(learning_rate(cosine, 12, 20) == test::about(1e-3).margin(tight));
  CHECK(learning_rate(cosine, 19, 20) == test::about(1e-3).margin(tight));
}

TEST_CASE("cosine is half a cosine between lr and lr_min") {
  const auto s = settings(config::DecayStyle::cosine);
  for (int step = 4; step < 20; ++step) {
    const double expected = 1e-3 + 9e-3 * (1 + std::cos(std::acos(-1.0) * (step - 4) / 16)) / 2;
    CHECK(learning_rate(s, step, 20) == test::about(expected).margin(tight));
  }
}

TEST_CASE("wsd is stable and decays linearly over the last part") {
  auto s = settings(config::DecayStyle::wsd);
  s.lr_decay_ratio = 0.25;
  CHECK(learning_rate(s, 4, 20) == 1e-2);
  CHECK(learning_rate(s, 15, 20) == 1e-2);
  CHECK(learning_rate(s, 16, 20) == test::about(1e-3 + 9e-3 * 4 / 5).margin(tight));
  CHECK(learning_rate(s, 19, 20) == test::about(1e-3 + 9e-3 * 1 / 5).margin(tight));
  CHECK(learning_rate(s, 20, 20) == test::about(1e-3).margin(tight));
  CHECK(learning_rate(s, 30, 20) == test::about(1e-3).margin(tight));
}

TEST_CASE("a wsd decay that would begin within the warm-up begins after it") {
  const auto s = settings(config::DecayStyle::wsd);  // lr_decay_ratio 1
  CHECK(learning_rate(s, 4, 20) == 1e-2);
  CHECK(learning_rate(s, 12, 20) == test::about(1e-3 + 9e-3 * 8 / 16).margin(tight));
}

TEST_CASE("a floor above the rate does not raise it") {
  auto s = settings(config::DecayStyle::cosine);
  s.lr = 0;
  s.lr_start = 0;
  for (int step = 0; step < 20; ++step) CHECK(learning_rate(s, step, 20) == 0);
}

TEST_CASE("every step of every style has a rate between its bounds, for runs of any length") {
  for (const auto style :
       {config::DecayStyle::constant, config::DecayStyle::linear, config::DecayStyle::cosine, config::DecayStyle::wsd})
    for (const double warmup : {0.0, 0.3, 1.0})
      for (const double decay : {0.0, 0.5, 1.0})
        for (int total = 1; total < 12; ++total)
          for (int step = 0; step <= total; ++step) {
            auto s = settings(style);
            s.lr_warmup_ratio = warmup;
            s.lr_decay_ratio = decay;
            const double rate = learning_rate(s, step, total);
            REQUIRE(rate >= 1e-3 - tight);
            REQUIRE(rate <= 1e-2 + tight);
          }
}

}  // namespace
}  // namespace tessera::optim
