// A folder of fixtures/: a model, a batch, and HuggingFace's results for them (README.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "architecture/architecture.h"
#include "support/composed_model.h"

namespace tessera::test {

enum class Bits { float32, float64 };

// Returns numbers with everything in that format.
[[nodiscard]] device::Numbers numbers_of(Bits bits);

// The results of a model, HuggingFace's or ours, for a batch.
struct Outcome {
  double loss = 0;
  double cross_entropy = 0;                     // mean over tokens with a target
  double aux_loss = 0;                          // balance loss without its coefficient
  double z_loss = 0;                            // of the routers, without its coefficient
  at::Tensor logits;                            // [tokens, vocabulary]; undefined: not compared
  std::map<std::int64_t, at::Tensor> top_k;     // layer -> [tokens, k] int64, each row ascending
  std::map<std::string, at::Tensor> gradients;  // of the loss, by parameter
  std::map<std::string, double> norms;          // of all gradients, by p: "1", "2", "3", "inf"; ours may lack some
};

// The results of AdamW, torch's or ours: several steps on the same batch, with clipping.
struct Training {
  config::OptimizerSettings settings;
  std::vector<double> losses;                 // before each step
  std::vector<double> gradient_norms;         // before clipping
  std::map<std::string, at::Tensor> weights;  // after the last step
};

class Fixture {
 public:
  explicit Fixture(const std::string& name);

  // Returns the names of all folders.
  [[nodiscard]] static std::vector<std::string> names();

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const architecture::ModelConfig& config() const { return config_; }
  [[nodiscard]] config::BalanceLoss balance() const { return balance_; }
  [[nodiscard]] double z_loss_coef() const { return z_loss_coef_; }
  [[nodiscard]] std::int64_t num_parameters() const { return num_parameters_; }
  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] Outcome expected(Bits bits) const;
  // Precondition: float64, or `everything`.
  [[nodiscard]] Training expected_training(Bits bits) const;

 private:
  std::filesystem::path folder_;
  architecture::ModelConfig config_;
  config::BalanceLoss balance_{};
  double z_loss_coef_ = 0;
  std::int64_t num_parameters_ = 0;
  Batch batch_;
};

// The facts of a step that consists of this one batch.
[[nodiscard]] model::StepFacts facts_of(const architecture::Architecture& architecture, const Batch& batch);

// Loads the weights of `file` (a folder or file that HuggingFace wrote) into the model's parameters.
void load_weights(const std::filesystem::path& file, const architecture::Architecture& architecture,
                  const ComposedModel& model);

// Runs `batch` forward and backward.
[[nodiscard]] Outcome run(const architecture::Architecture& architecture, ComposedModel& model, const Batch& batch);

}  // namespace tessera::test
