#include "layout_check.h"

#include <algorithm>
#include <map>

#include "comparison.h"
#include "program/builder.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

constexpr std::int64_t steps = 10;
enum class Precision { float64, float32 };

Words in(Precision precision, Words words) {
  words.insert(words.end(), {"--train.precision", precision == Precision::float64 ? "float64" : "float32"});
  return words;
}

// One rank's run for each set of options, made once.
class References {
 public:
  explicit References(const SmallRun& files) : files_(files) {}

  const Reference& of(const LayoutCase& c, Precision precision) {
    const auto words = in(precision, c.reference_words());
    const auto found = made_.find(words);
    if (found != made_.end()) return found->second;
    auto reference = train_alone(files_.settings(words), steps);
    for (const auto& [fqn, gradient] : reference.gradients.front()) {
      INFO(fqn);
      CHECK(gradient.abs().max().item<double>() > 0);
    }
    return made_.emplace(words, std::move(reference)).first->second;
  }

 private:
  const SmallRun& files_;
  std::map<Words, Reference> made_;
};

std::int64_t count(const std::vector<std::string>& lines, const std::string& beginning) {
  return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(beginning); });
}

// Checks that settings that ask for another program get another program.
void check_program(const LayoutCase& c, const config::Settings& settings) {
  const auto blueprint = blueprint_of(settings, c.world);
  const auto options = program::builder_options(blueprint.settings);
  CHECK((options.recompute != program::Recompute::none) == (c.recompute != Recompute::none));
  const auto built = train::make_program(blueprint, program::StepKind::train, blueprint.global_batch);
  const auto lines = program::describe(built);
  CHECK((count(lines, "Recompute") > 0) == (c.recompute != Recompute::none));
  auto plain = options;
  plain.kind = program::StepKind::train;
  plain.micro_steps = built.micro_steps;
  plain.overlap_exchange = false;
  const auto sequential =
      program::describe(program::build_program(blueprint.architecture, blueprint.placements, blueprint.layout, plain));
  const auto groups = c.extra_groups();
  const bool exchanges = std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.first != "own"; });
  CHECK((lines != sequential) == (c.overlap == Overlap::on && exchanges && built.micro_steps > 1));
}

// In float32 Adam's steps turn differences of rounding in small gradients into larger ones of weights: then the
// gradients of the first step count.
bool agrees(const Deviations& d, const LayoutCase& c, Precision precision) {
  if (precision == Precision::float64) return d.largest() <= 1e-10;
  constexpr double bar = 1e-5;
  const auto gradients = c.optimizer == Optimizer::sgd ? d.gradients : d.first_gradients;
  return d.losses <= bar && d.norms <= bar && gradients <= bar;
}

void check_case(const LayoutCase& c, const SmallRun& files, References& references, Precision precision) {
  INFO(c.describe());
  const auto settings = files.settings(in(precision, c.words(files.folder() / "plan.json")));
  check_program(c, settings);
  const auto& reference = references.of(c, precision);
  const auto deviations = compare(settings, world().communicator(), reference);
  INFO("losses " << deviations.losses << ", norms " << deviations.norms << ", gradients " << deviations.gradients
                 << ", in the first step " << deviations.first_gradients << " (" << deviations.largest_gradient
                 << "), load " << deviations.same_load);
  CHECK_ON_ALL(agrees(deviations, c, precision));
  if (precision == Precision::float64) CHECK(deviations.sent == deviations.planned);
}

void check(const std::vector<LayoutCase>& cases, Precision precision) {
  const SmallRun files;
  files.folder().write("plan.json", plan_with_own_group());
  References references(files);
  for (const auto& c : cases) check_case(c, files, references, precision);
}

}  // namespace

void check_cases(const std::vector<LayoutCase>& cases) { check(cases, Precision::float64); }
void check_cases_in_float32(const std::vector<LayoutCase>& cases) { check(cases, Precision::float32); }

}  // namespace tessera::test
