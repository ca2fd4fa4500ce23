#include "train/inputs.h"

#include <optional>
#include <utility>

#include "comm/agreement.h"
#include "train/device_choice.h"
#include "train/same_run.h"

namespace tessera::train {

Inputs read_inputs(config::Settings settings, comm::Communicator& ranks, device::Place place) {
  settings.train.precision = resolve_precision(settings.train.precision, place);
  std::optional<Blueprint> blueprint;
  std::unique_ptr<data::Dataset> training, evaluation;
  comm::agree_on(ranks, [&] {
    blueprint = make_blueprint(settings, ranks.size(), place);
    training = make_dataset(*blueprint, Split::training);
    evaluation = make_dataset(*blueprint, Split::evaluation);
  });
  require_same_run(ranks, *blueprint, *training, evaluation.get());
  return {std::move(*blueprint), std::move(training), std::move(evaluation)};
}

}  // namespace tessera::train
