#include "executor/run.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace tessera::executor {

using program::Op;
using program::ResourceKind;

namespace {

// "Forward layers", "Wait Gather", "Sum": what the timeline adds up under one name.
std::string kind_of(const program::Program& program, const program::Instruction& i) {
  std::string kind = i.op == Op::wait ? "Wait " + std::string(name(i.waits_for)) : std::string(name(i.op));
  if (i.op == Op::forward || i.op == Op::backward || i.op == Op::recompute || i.op == Op::forward_backward) {
    const auto& chain = program.chains[static_cast<std::size_t>(i.target)].name;
    kind += " " + chain.substr(0, chain.find_first_of(".["));
  }
  return kind;
}

Tape make_tape(const Parts& parts) {
  if (!parts.options.checks_values) return {};
  return Tape(ValueChecks(parts.architecture.config(), parts.options.numbers));
}

}  // namespace

Run::Run(Parts& parts, const program::Program& program, StepInputs inputs, std::vector<std::string>& executed)
    : parts_(parts),
      program_(program),
      inputs_(std::move(inputs)),
      executed_(executed),
      tape_(make_tape(parts)),
      travels_(program, parts.timeline),
      measurements_(parts),
      chains_(parts, program, tape_, measurements_),
      exchanges_(parts, program, tape_, travels_),
      sums_(parts, program, inputs_, tape_, travels_, measurements_, result_) {
  base::expect(std::ssize(inputs_.batches) == program.micro_steps || program.kind == program::StepKind::skipped,
               "{} batches for {} micro-steps", inputs_.batches.size(), program.micro_steps);
  for (const auto& input : program.inputs) {
    const auto& batch = inputs_.batches[static_cast<std::size_t>(input.micro)];
    const auto found = batch.find(input.value);
    base::expect(found != batch.end(), "the batch has no {}", architecture::name(input.value));
    tape_.set_value(input, found->second);
  }
}

StepResult Run::run() {
  const auto measured = parts_.options.measured;
  double compute_s = 0, communication_s = 0;
  if (parts_.is_on_gpu()) gpu_times_.start();
  for (const auto& i : program_.instructions) {
    auto name = program::describe(program_, i);
    parts_.world().set_label(name);
    const bool is_alone = measured != Measured::together && is_started(i.op);
    if (is_alone) meet(i);
    const auto began = base::seconds_now();
    execute_or_tell(i, name);
    if (is_alone) travels_.end(i);
    if (measured != Measured::together && parts_.is_on_gpu()) device::Stream::compute().synchronize();
    const auto ended = base::seconds_now();
    for (const auto& r : i.frees) tape_.drop(r);
    (is_alone ? communication_s : compute_s) += ended - began;
    note_time(i, name, began, ended);
    executed_.push_back(std::move(name));
    if (sums_.ends_early()) break;
  }
  gpu_times_.add_to(parts_.timeline);
  travels_.tell_timeline();
  result_.measured_s = measured == Measured::communication_alone ? communication_s : compute_s;
  return std::move(result_);
}

void Run::note_time(const Instruction& i, const std::string& name, double began, double ended) {
  if (parts_.is_on_gpu()) return gpu_times_.note(kind_of(program_, i), name);
  auto& timeline = parts_.timeline;
  timeline.add(kind_of(program_, i), ended - began);
  if (timeline.records()) timeline.add({TimelineEvent::Lane::compute, name, {}, began, ended});
}

void Run::meet(const Instruction& i) const {
  for (const auto& group : program::groups_of(program_, i)) parts_.mesh.host(group)->barrier();
}

void Run::execute_or_tell(const Instruction& i, const std::string& name) {
  const auto tell = [&](const char* what) {
    std::int64_t rows = 0;
    for (const auto& r : i.reads)
      if (r.kind == ResourceKind::value && tape_.value(r).dim() > 0) rows = std::max(rows, tape_.value(r).size(0));
    throw base::Error(base::ExitCode::rank_failed, fmt::format("{} of {} rows: {}", name, rows, what));
  };
  try {
    execute(i);
  } catch (const c10::Error& error) {
    tell(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    tell("out of memory");
  }
}

void Run::execute(const Instruction& i) {
  switch (i.op) {
    case Op::gather:
    case Op::exchange:
    case Op::reduce:
    case Op::sum: return start(i);
    case Op::wait: return wait(i);
    case Op::forward: return chains_.forward(i, sums_.facts(i.micro));
    case Op::backward: return chains_.backward(i);
    case Op::recompute: return chains_.recompute(i);
    case Op::forward_backward: return chains_.forward_backward(i, sums_.facts(i.micro));
    case Op::free: return parts_.store.free(static_cast<std::size_t>(i.target));
    case Op::clip: return sums_.clip();
    case Op::update: return sums_.update();
  }
}

void Run::start(const Instruction& i) {
  const auto unit = static_cast<std::size_t>(i.target);
  if (i.op == Op::gather) return travels_.add(i.ticket, parts_.store.start_gather(unit));
  if (i.op == Op::reduce) return travels_.add(i.ticket, parts_.store.start_reduce(unit));
  if (i.op == Op::exchange) return exchanges_.start(i);
  sums_.start(i);
}

void Run::wait(const Instruction& i) {
  travels_.end(i);
  if (i.waits_for == Op::reduce) parts_.store.give_back_gradient(static_cast<std::size_t>(i.target));
  if (i.waits_for == Op::exchange) exchanges_.finish(i);
  if (i.waits_for == Op::sum) sums_.finish(i);
}

}  // namespace tessera::executor
