// Rows of `train.*` (batches, steps, numbers, recomputation) and of `train.optimizer.*`.
#include "config/field_rows.h"

namespace tessera::config {
namespace {

std::vector<Field> step_rows() {
  return {
      on_resume(OnResume::by_effect,
                integer("train.micro_batch_size", &TrainSettings::micro_batch_size, count_from(1), "2",
                        {"Sequences that a rank processes at once; memory for activations grows with it.",
                         "memory by purpose in --dry-run"})),
      on_resume(
          OnResume::by_effect,
          optional_row("train.global_batch_size", &TrainSettings::global_batch_size,
                       {.kind = Kind::integer, .range = count_from(1)}, "micro_batch_size x data-parallel ranks", "5",
                       {"Sequences of one step over all ranks and micro-steps; any number will do.",
                        "tokens in metrics.jsonl"})),
      on_resume(OnResume::by_effect,
                optional_row(
                    "train.max_steps", &TrainSettings::max_steps, {.kind = Kind::integer, .range = between(1, 1e15)},
                    "no limit", "7",
                    {"Steps of the whole run; the first of max_steps and num_train_epochs ends it (VeOmni counts its "
                     "max_steps per epoch).",
                     "the last step in metrics.jsonl"})),
      on_resume(OnResume::by_effect,
                integer("train.num_train_epochs", &TrainSettings::num_train_epochs, count_from(1), "2",
                        {"Passes over the training data.", "the number of steps on the start page"})),
      with(integer(
               "train.eval_steps", &TrainSettings::eval_steps, between(0, 1e15), "2",
               {"Evaluate every N steps; 0: only at the end. Each evaluation costs a forward pass over data.eval_path.",
                "evaluation objects at those steps in metrics.jsonl"}),
           {"--data.eval_path", "held_out.txt"}),
  };
}

Field seed_row() {
  Field field{.path = "train.seed",
              .group = {},
              .form = {.kind = Kind::integer, .range = at_least(0)},
              .help = "Seed of initial values and of the order of the data.",
              .observe = "the losses"};
  field.example = {"43"};
  field.on_resume = OnResume::alters;
  field.get = [](const Draft& d) -> std::optional<Value> {
    return Value(static_cast<std::int64_t>(d.settings.train.seed));
  };
  field.set = [](Draft& d, const Value& v) {
    d.settings.train.seed = static_cast<std::uint64_t>(std::get<std::int64_t>(v));
  };
  return field;
}

std::vector<Field> number_rows() {
  return {
      seed_row(),
      optional_row("train.threads", &TrainSettings::threads, {.kind = Kind::integer, .range = between(1, 4096)},
                   "OMP_NUM_THREADS, or cores / ranks of this machine", "1",
                   {"Threads of each rank; results are bit-identical only for equal numbers of threads.",
                    "threads on the start page, tokens_per_s"}),
      on_resume(OnResume::alters, word("train.precision", &TrainSettings::precision,
                                       {"auto", "float32", "bfloat16", "float64"}, "float64",
                                       {"Number format of compute: auto is bfloat16 on CUDA and float32 on the CPU; "
                                        "float64 is the reference mode "
                                        "(everything, masters too: twice the memory and slow).",
                                        "precision on the start page, the last digits of the losses"})),
      boolean(
          "train.enable_full_determinism", &TrainSettings::enable_full_determinism,
          {"Makes runs on CUDA bit-identical, at some cost in speed; on the CPU every run is deterministic without it.",
           "precision on the start page, equal losses of two runs"}),
      word("train.on_nonfinite", &TrainSettings::on_nonfinite, {"stop", "skip"}, "skip",
           {"Action if a loss, a held-out loss or a gradient norm is not finite: stop the run, or leave out the step's "
            "update, count the step and continue.",
            "exit code 3 or a run that goes on"}),
      with(integer("train.max_consecutive_skips", &TrainSettings::max_consecutive_skips, count_from(0), "3",
                   {"With on_nonfinite skip: stop the run after this many skipped steps in a row, as they change "
                    "nothing; 0: never.",
                    "exit code 3 or a run that goes on"}),
           {"--train.on_nonfinite", "skip"}),
      boolean("train.gradient_checkpointing.enable", &GradientCheckpointingSettings::enable,
              {"Recompute activations in backward instead of keeping them: less memory, up to a third more compute.",
               "Recompute instructions in the program of --dry-run"}),
      with(
          word(
              "train.gradient_checkpointing.scope", &GradientCheckpointingSettings::scope, {"full", "experts"},
              "experts",
              {"Recompute whole layers, except for the results of communication (full), or only the experts (experts).",
               "which segments the Recompute instructions name"}),
          {"--train.gradient_checkpointing.enable", "true"}),
      integer("train.moe_load_balance_monitor_interval", &TrainSettings::moe_load_balance_monitor_interval,
              between(0, 1e15), "1",
              {"Write each expert's load to metrics.jsonl and the most uneven layer's max/mean to the log every N "
               "steps; 0: never.",
               "expert_load objects"}),
  };
}

std::vector<Field> rate_rows() {
  const std::vector<std::string> cosine{"--train.optimizer.lr_decay_style", "cosine"};
  return {
      word("train.optimizer.type", &OptimizerSettings::type, {"adamw", "sgd"}, "sgd",
           {"AdamW keeps two numbers per weight, SGD none (one with momentum).", "memory by purpose in --dry-run"}),
      number("train.optimizer.lr", &OptimizerSettings::lr, at_least(0), "0.001",
             {"Learning rate after warm-up.", "lr in metrics.jsonl"}),
      with(number("train.optimizer.lr_min", &OptimizerSettings::lr_min, at_least(0), "1e-06",
                  {"Learning rate at the end of the decay.", "lr in metrics.jsonl"}),
           cosine),
      with(number("train.optimizer.lr_start", &OptimizerSettings::lr_start, at_least(0), "1e-06",
                  {"Learning rate at the start of warm-up.", "lr in metrics.jsonl"}),
           {"--train.optimizer.lr_warmup_ratio", "0.5"}),
      number("train.optimizer.lr_warmup_ratio", &OptimizerSettings::lr_warmup_ratio, between(0, 1), "0.5",
             {"Fraction of all steps in which the rate rises from lr_start to lr.", "lr in metrics.jsonl"}),
      word("train.optimizer.lr_decay_style", &OptimizerSettings::lr_decay_style,
           {"constant", "linear", "cosine", "wsd"}, "cosine",
           {"How the rate falls from lr to lr_min: not at all (constant), along a straight line (linear) or half a "
            "cosine (cosine); wsd (warm-up, stable, decay) stays at lr and falls along a straight line at the end.",
            "lr in metrics.jsonl"}),
      with(number("train.optimizer.lr_decay_ratio", &OptimizerSettings::lr_decay_ratio, between(0, 1), "0.5",
                  {"linear, cosine: fraction of all steps after which the rate is lr_min; wsd: length of the last "
                   "phase as a fraction of all steps.",
                   "lr in metrics.jsonl"}),
           cosine),
  };
}

std::vector<Field> optimizer_rows() {
  Range clip = at_least(0);
  clip.infinity = Infinity::allowed;
  Range norm = at_least(1);
  norm.infinity = Infinity::allowed;
  return {
      list("train.optimizer.betas", &OptimizerSettings::betas, Kind::numbers, from_below(0, 1), {"0.8", "0.99"},
           {"AdamW's decay rates of the two moments.", "the losses, from the second step on"}),
      number("train.optimizer.eps", &OptimizerSettings::eps, above(0), "0.001",
             {"AdamW's term against division by zero.", "the losses, from the second step on"}),
      with(number("train.optimizer.momentum", &OptimizerSettings::momentum, from_below(0, 1), "0.9",
                  {"SGD's momentum; a value above 0 keeps one number per weight.", "memory by purpose, the losses"}),
           {"--train.optimizer.type", "sgd"}),
      number(
          "train.optimizer.weight_decay", &OptimizerSettings::weight_decay, at_least(0), "0.1",
          {"Decoupled weight decay of matrices; norms and biases have none.", "the losses, from the second step on"}),
      with(list("train.optimizer.no_decay_params", &OptimizerSettings::no_decay_params, Kind::texts, any_number(),
                {"model.embed_tokens.weight"},
                {"Further parameters without weight decay, as patterns of names; * matches within one component of a "
                 "name.",
                 "the optimizer's groups in the log"}),
           {"--train.optimizer.weight_decay", "0.1"}),
      number("train.optimizer.max_grad_norm", &OptimizerSettings::max_grad_norm, clip, "0.01",
             {"Gradients are scaled down to this norm; 0 or inf: no clipping, the norm is still logged.",
              "the losses, from the second step on"}),
      number("train.optimizer.norm_type", &OptimizerSettings::norm_type, norm, "inf",
             {"The p of the gradient's p-norm, or inf for the largest element.", "grad_norm in metrics.jsonl"}),
  };
}

}  // namespace

void add_train_fields(std::vector<Field>& table) {
  add_rows(table, "Batches and steps", step_rows());
  add_rows(table, "Numbers and memory", number_rows());
}

void add_optimizer_fields(std::vector<Field>& table) {
  add_rows(table, "Learning rate", on_resume(OnResume::alters, rate_rows()));
  add_rows(table, "Optimizer", on_resume(OnResume::alters, optimizer_rows()));
}

}  // namespace tessera::config
