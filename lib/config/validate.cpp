#include "config/validate.h"

#include <fmt/format.h>

#include "config/fields.h"

namespace tessera::config {
namespace {

using base::Problems;

Verdict check_not_yet(const Settings& settings, Problems& problems) {
  Verdict verdict = Verdict::complete;
  Draft draft;
  draft.settings = settings;
  for (const Field& field : fields()) {
    if (field.not_yet.empty()) continue;
    const std::optional<Value> value = field.get(draft);
    if (!value || value == field.default_value()) continue;
    problems.add("{} = {} needs a part that is not yet built: {}; leave it out", field.path, to_text(*value),
                 field.not_yet);
    if (field.path.ends_with("_size")) verdict = Verdict::ranks_not_built;
  }
  return verdict;
}

void check_action(const Settings& s, Action action, Problems& problems) {
  if (action != Action::dry_run && s.train.accelerator.world_size != 0)
    problems.add("train.accelerator.world_size = {} is for --dry-run only; start ranks with mpirun -n {}",
                 s.train.accelerator.world_size, s.train.accelerator.world_size);
}

void check_presence(const Settings& s, Action action, Problems& problems) {
  if (action != Action::train && action != Action::dry_run) return;
  if (s.model.config_path.empty() && s.model.model_path.empty())
    problems.add(
        "model.config_path is missing: no model is named; give --model.config_path FILE, HuggingFace's config.json, or "
        "--model.model_path FOLDER, a checkpoint");
  if (s.data.train_path.empty())
    problems.add("data.train_path is missing: there is nothing to train on; give --data.train_path FILE ...");
}

void check_data(const Settings& s, Problems& problems) {
  const bool reads_lines = s.data.format == DataFormat::automatic || s.data.format == DataFormat::jsonl;
  if (!reads_lines && s.data.text_keys != DataSettings{}.text_keys)
    problems.add("data.text_keys = {} has no effect with data.format = {}; leave it out, or use jsonl",
                 s.data.text_keys, value_text(s, "data.format"));
  if (!reads_lines && s.data.on_bad_line != DataSettings{}.on_bad_line)
    problems.add("data.on_bad_line = {} has no effect with data.format = {}; leave it out, or use jsonl",
                 value_text(s, "data.on_bad_line"), value_text(s, "data.format"));
  if (s.train.eval_steps > 0 && s.data.eval_path.empty())
    problems.add("train.eval_steps = {} needs held-out data; give --data.eval_path FILE ..., or 0", s.train.eval_steps);
}

void check_schedule(const OptimizerSettings& o, Problems& problems) {
  const OptimizerSettings fallback;
  if (o.lr_decay_style == DecayStyle::constant) {
    if (o.lr_min != fallback.lr_min)
      problems.add(
          "train.optimizer.lr_min = {} has no effect with lr_decay_style = constant; use linear, cosine or wsd",
          o.lr_min);
    if (o.lr_decay_ratio != fallback.lr_decay_ratio)
      problems.add(
          "train.optimizer.lr_decay_ratio = {} has no effect with lr_decay_style = constant; use linear, cosine or wsd",
          o.lr_decay_ratio);
  } else if (o.lr_min > o.lr) {
    problems.add("train.optimizer.lr_min = {} is above lr = {}; the rate would rise; give at most {}", o.lr_min, o.lr,
                 o.lr);
  }
  if (o.lr_start > o.lr)
    problems.add("train.optimizer.lr_start = {} is above lr = {}; warm-up rises; give at most {}", o.lr_start, o.lr,
                 o.lr);
  if (o.lr_start != fallback.lr_start && o.lr_warmup_ratio == 0)
    problems.add("train.optimizer.lr_start = {} has no effect without warm-up; give lr_warmup_ratio", o.lr_start);
  const bool falls = o.lr_decay_style == DecayStyle::linear || o.lr_decay_style == DecayStyle::cosine;
  if (falls && o.lr_warmup_ratio > o.lr_decay_ratio)
    problems.add(
        "train.optimizer.lr_warmup_ratio = {} is above lr_decay_ratio = {}: the decay would end before it begins; give "
        "at most {}",
        o.lr_warmup_ratio, o.lr_decay_ratio, o.lr_decay_ratio);
  if (o.lr_decay_style == DecayStyle::wsd && o.lr_warmup_ratio + o.lr_decay_ratio > 1)
    problems.add(
        "train.optimizer.lr_warmup_ratio + lr_decay_ratio = {} + {} is above 1: wsd's phases follow one another; give "
        "lr_decay_ratio at most {}",
        o.lr_warmup_ratio, o.lr_decay_ratio, 1 - o.lr_warmup_ratio);
}

void check_optimizer(const OptimizerSettings& o, Problems& problems) {
  const OptimizerSettings fallback;
  if (o.betas.size() != 2)
    problems.add("train.optimizer.betas has {} values; give two: --train.optimizer.betas 0.9 0.95", o.betas.size());
  if (o.type == OptimizerType::sgd) {
    if (o.betas != fallback.betas)
      problems.add("train.optimizer.betas = {} has no effect with type = sgd; use momentum", fmt::join(o.betas, " "));
    if (o.eps != fallback.eps)
      problems.add("train.optimizer.eps = {} has no effect with type = sgd; leave it out", o.eps);
  } else if (o.momentum != fallback.momentum) {
    problems.add("train.optimizer.momentum = {} has no effect with type = adamw; use betas, or type sgd", o.momentum);
  }
  if (!o.no_decay_params.empty() && o.weight_decay == 0)
    problems.add(
        "train.optimizer.no_decay_params has no effect with weight_decay = 0; give a weight decay, or leave it out");
}

void check_accelerator(const AcceleratorSettings& a, Problems& problems) {
  if (a.backend == Backend::nccl && a.device == DeviceType::cpu)
    problems.add(
        "train.accelerator.backend = nccl moves memory of GPUs only, but train.accelerator.device = cpu; leave one of "
        "them out");
  const FsdpSettings& f = a.fsdp_config;
  if (!f.forward_prefetch && f.prefetch_depth > 1)
    problems.add(
        "train.accelerator.fsdp_config.prefetch_depth = {} contradicts forward_prefetch = false (depth 0); keep one of "
        "them",
        f.prefetch_depth);
}

void check_checkpoint(const CheckpointSettings& c, Problems& problems) {
  if (c.save_async && c.save_steps == 0 && c.save_epochs == 0)
    problems.add(
        "train.checkpoint.save_async = true has no effect: the last save is waited for; give save_steps or "
        "save_epochs");
  if (c.keep_last > 0 && c.save_steps == 0 && c.save_epochs == 0 && !c.save_last)
    problems.add("train.checkpoint.keep_last = {} has no effect: nothing is saved", c.keep_last);
  if (c.keep_every > 0 && c.keep_last == 0)
    problems.add("train.checkpoint.keep_every = {} has no effect with keep_last = 0, with which all checkpoints stay",
                 c.keep_every);
  if (c.allow_changes && c.load_path.empty() && !c.own_first)
    problems.add("train.checkpoint.allow_changes = true has no effect without load_path or own_first");
  if (c.save_hf_weights && !c.save_last)
    problems.add(
        "train.checkpoint.save_hf_weights = true takes the weights from the last checkpoint; leave save_last "
        "true");
}

void check_train(const TrainSettings& t, Problems& problems) {
  if (!t.gradient_checkpointing.enable && t.gradient_checkpointing.scope != RecomputeScope::full)
    problems.add(
        "train.gradient_checkpointing.scope = experts has no effect with enable = false; give "
        "--train.gradient_checkpointing.enable true");
  if (t.on_nonfinite == OnNonfinite::stop && t.max_consecutive_skips != TrainSettings{}.max_consecutive_skips)
    problems.add(
        "train.max_consecutive_skips = {} has no effect with on_nonfinite = stop; give --train.on_nonfinite skip",
        t.max_consecutive_skips);
  if (t.precision == Precision::float64 && t.accelerator.device == DeviceType::cuda)
    problems.add(
        "train.precision = float64 is the CPU's reference mode; use --train.accelerator.device cpu, or bfloat16");
}

}  // namespace

Verdict validate(const Settings& settings, Action action, Content content, base::Problems& problems) {
  check_action(settings, action, problems);
  if (content == Content::settings) check_presence(settings, action, problems);
  check_data(settings, problems);
  check_schedule(settings.train.optimizer, problems);
  check_optimizer(settings.train.optimizer, problems);
  check_accelerator(settings.train.accelerator, problems);
  check_train(settings.train, problems);
  check_checkpoint(settings.train.checkpoint, problems);
  return check_not_yet(settings, problems);
}

}  // namespace tessera::config
