// Rows of `train.accelerator.*`: parallelism, sharding, devices and collectives.
#include <algorithm>

#include "config/field_rows.h"

namespace tessera::config {
namespace {

// The layout checks these sizes, because it knows the number of ranks: it refuses 0 and -2 and names the sizes that
// fit.
Range any_size() { return any_number(); }

std::vector<Field> axis_rows() {
  return {
      integer("train.accelerator.dp_replicate_size", &AcceleratorSettings::dp_replicate_size, any_size(), "2",
              {"Number of replicas of the sharded model; -1 fills the world (1 if dp_shard_size is -1 too).",
               "the groups of --dry-run"}),
      integer("train.accelerator.dp_shard_size", &AcceleratorSettings::dp_shard_size, any_size(), "2",
              {"Ranks over which parameters, gradients and optimizer state are sharded; -1 fills the world.",
               "the groups of --dry-run"}),
      not_yet(integer("train.accelerator.tp_size", &AcceleratorSettings::tp_size, count_from(1), "2",
                      {"Ranks that split each matrix of the attention.", "the groups of --dry-run"}),
              "tensor parallelism"),
      not_yet(integer("train.accelerator.pp_size", &AcceleratorSettings::pp_size, count_from(1), "2",
                      {"Number of stages that share the layers.", "the groups of --dry-run"}),
              "pipeline parallelism"),
      not_yet(integer("train.accelerator.ulysses_size", &AcceleratorSettings::ulysses_size, count_from(1), "2",
                      {"Ranks that share a sequence and exchange heads.", "the groups of --dry-run"}),
              "sequence parallelism"),
      not_yet(integer("train.accelerator.cp_size", &AcceleratorSettings::cp_size, count_from(1), "2",
                      {"Ranks that share a sequence and pass keys and values on.", "the groups of --dry-run"}),
              "context parallelism"),
  };
}

// Rows for VeOmni's older way to name one extra parallel.
Field ep_size_row() {
  Field field{.path = "train.accelerator.ep_size",
              .group = {},
              .form = {.kind = Kind::integer, .range = any_size()},
              .role = FieldRole::spelling,
              .help = "Expert parallelism: adds the name ep with this size to the extra parallel lists.",
              .observe = "extra_parallel_names and _sizes of --print-settings"};
  field.example = {"2"};
  field.get = [](const Draft& d) -> std::optional<Value> {
    return d.ep_size ? std::optional<Value>(*d.ep_size) : std::nullopt;
  };
  field.set = [](Draft& d, const Value& v) { d.ep_size = std::get<std::int64_t>(v); };
  return field;
}

Field ep_outside_row() {
  Field field{
      .path = "train.accelerator.ep_outside",
      .group = {},
      .form = {.kind = Kind::boolean},
      .role = FieldRole::spelling,
      .help = "Places the ranks of ep_size apart instead of adjacent: extra_parallel_placement_innermost false.",
      .observe = "extra_parallel_placement_innermost of --print-settings"};
  field.example = {"true"};
  field.beside = {"--train.accelerator.ep_size", "2"};
  field.get = [](const Draft& d) -> std::optional<Value> {
    return d.ep_outside ? std::optional<Value>(*d.ep_outside) : std::nullopt;
  };
  field.set = [](Draft& d, const Value& v) { d.ep_outside = std::get<bool>(v); };
  return field;
}

std::vector<Field> extra_parallel_rows() {
  return {
      with(list("train.accelerator.extra_parallel_sizes", &AcceleratorSettings::extra_parallel_sizes, Kind::integers,
                any_size(), {"2"},
                {"Sizes (1 or more) of the named groups that split dim 0 of the plan's parameters; with size 1 these "
                 "are ordinary FSDP parameters.",
                 "the groups of --dry-run"}),
           {"--train.accelerator.extra_parallel_names", "ep"}),
      with(list("train.accelerator.extra_parallel_names", &AcceleratorSettings::extra_parallel_names, Kind::texts,
                any_number(), {"emb"},
                {"Names of those groups, as in the plan (ep: experts, emb: embedding).", "the groups of --dry-run"}),
           {"--train.accelerator.extra_parallel_sizes", "1"}),
      with(list("train.accelerator.extra_parallel_placement_innermost",
                &AcceleratorSettings::extra_parallel_placement_innermost, Kind::booleans, any_number(), {"false"},
                {"Whether the ranks of each group are adjacent (true) or apart (false); without the setting, adjacent "
                 "for every group.",
                 "the ranks of the groups of --dry-run"}),
           {"--train.accelerator.extra_parallel_names", "ep", "--train.accelerator.extra_parallel_sizes", "1"}),
      ep_size_row(),
      ep_outside_row(),
      optional_row(
          "train.accelerator.parallel_plan", &AcceleratorSettings::parallel_plan, {.kind = Kind::path},
          "the built-in plan of the model", "plan.json",
          {"JSON plan that says which parameters each named group splits.", "the parameter table of --dry-run"}),
  };
}

Field mixed_precision_row() {
  Field field{.path = "train.accelerator.fsdp_config.mixed_precision.enable",
              .group = {},
              .form = {.kind = Kind::boolean},
              .role = FieldRole::spelling,
              .help = "true sets train.precision to param_dtype (bfloat16 if that is left out), false to float32.",
              .observe = "train.precision of --print-settings"};
  field.example = {"true"};
  field.get = [](const Draft& d) -> std::optional<Value> {
    return d.mixed_precision ? std::optional<Value>(*d.mixed_precision) : std::nullopt;
  };
  field.set = [](Draft& d, const Value& v) { d.mixed_precision = std::get<bool>(v); };
  return field;
}

Field parameter_dtype_row() {
  Field field{.path = "train.accelerator.fsdp_config.mixed_precision.param_dtype",
              .group = {},
              .form = {.kind = Kind::word, .words = {"bfloat16", "float32"}},
              .role = FieldRole::spelling,
              .help = "Sets train.precision; bfloat16 contradicts mixed_precision.enable false.",
              .observe = "train.precision of --print-settings"};
  field.example = {"bfloat16"};
  field.get = [](const Draft& d) -> std::optional<Value> {
    return d.parameter_dtype ? std::optional<Value>(*d.parameter_dtype) : std::nullopt;
  };
  field.set = [](Draft& d, const Value& v) { d.parameter_dtype = std::get<std::string>(v); };
  return field;
}

// Its only legal value is the default, so nothing is stored.
Field reduce_dtype_row() {
  Field field{
      .path = "train.accelerator.fsdp_config.mixed_precision.reduce_dtype",
      .group = {},
      .form = {.kind = Kind::word, .words = {"float32"}},
      .role = FieldRole::spelling,
      .help = "Number format in which gradients are summed: only float32, as narrower sums lose small gradients.",
      .observe = "nothing: any other value is refused"};
  field.example = {"bfloat16"};
  field.get = [](const Draft&) -> std::optional<Value> { return std::nullopt; };
  field.set = [](Draft&, const Value&) {};
  return field;
}

std::vector<Field> fsdp_rows() {
  return {
      word("train.accelerator.fsdp_config.fsdp_mode", &FsdpSettings::fsdp_mode,
           {"fsdp2", "zero3", "zero2", "zero1", "ddp"}, "ddp",
           {"Sharding mode: fsdp2 = zero3 frees gathered parameters after use, zero2 keeps them over the step, zero1 "
            "also reduces gradients only once a step, ddp keeps whole masters on every rank.",
            "the program and the memory of --dry-run"}),
      boolean("train.accelerator.fsdp_config.reshard_after_forward", &FsdpSettings::reshard_after_forward,
              {"fsdp2, zero3: free a unit's gathered parameters after its forward (less memory) or keep them until its "
               "backward (fewer gathers).",
               "Free and Gather instructions in the program of --dry-run"}),
      boolean("train.accelerator.fsdp_config.forward_prefetch", &FsdpSettings::forward_prefetch,
              {"Gather the next units while one computes; false means prefetch_depth 0.",
               "the place of Gather instructions in the program of --dry-run"}),
      integer_or_auto("train.accelerator.fsdp_config.prefetch_depth", &FsdpSettings::prefetch_depth, between(0, 1024),
                      "2",
                      {"Number of groups of units that are gathered ahead, and reduced while the next gradients are "
                       "computed; each takes the memory of its parameters. auto: the most that add at most a tenth to "
                       "the memory planned for a rank at depth 1; the start page has the number.",
                       "the place of Gather instructions in the program of --dry-run"}),
      not_yet(boolean("train.accelerator.fsdp_config.offload", &FsdpSettings::offload,
                      {"Keep masters and optimizer state in host memory.", "memory by purpose in --dry-run"}),
              "offload"),
      mixed_precision_row(),
      parameter_dtype_row(),
      reduce_dtype_row(),
  };
}

std::vector<Field> machine_rows() {
  return {
      boolean("train.accelerator.overlap_exchange", &AcceleratorSettings::overlap_exchange,
              {"Run the exchanges of one micro-batch during the compute of another; this keeps the activations of two "
               "in memory. Gradients are summed in another order, which changes float32's last bits.",
               "the order of the program of --dry-run"}),
      word("train.accelerator.backend", &AcceleratorSettings::backend, {"auto", "mpi", "nccl"}, "nccl",
           {"Library that runs collectives: auto is NCCL if the device is CUDA, else MPI; mpi on CUDA goes through "
            "host memory, which is slow.",
            "backend on the start page of several ranks; nccl is refused if the device is the CPU"}),
      word("train.accelerator.device", &AcceleratorSettings::device, {"auto", "cpu", "cuda"}, "cuda",
           {"Device that computes; auto is CUDA if this program was built with it and every rank has a GPU of its own, "
            "else the CPU.",
            "device on the start page; cuda is refused where there is no GPU"}),
      number("train.accelerator.timeout_s", &AcceleratorSettings::timeout_s, above(0), "60",
             {"Seconds that a collective waits without a sign of life from the other ranks; then a message names it "
              "and the job ends. A rank that works on a file counts as alive; a single file operation that takes this "
              "long is named, and may take five times as long.",
              "how soon a stopped rank ends the job"}),
      with(optional_row("train.accelerator.world_size", &AcceleratorSettings::world_size,
                        {.kind = Kind::integer, .range = count_from(1)}, "the ranks that were started", "4",
                        {"Ranks to plan for, with --dry-run only.", "the groups of --dry-run"}),
           {"--dry-run"}),
  };
}

}  // namespace

void add_accelerator_fields(std::vector<Field>& table) {
  add_rows(table, "Parallelism", axis_rows());
  add_rows(table, "Extra parallelism", extra_parallel_rows());
  add_rows(table, "Sharding", fsdp_rows());
  add_rows(table, "Devices and collectives", machine_rows());
}

}  // namespace tessera::config
