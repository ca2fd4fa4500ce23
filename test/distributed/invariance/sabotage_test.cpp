// If this failed, the comparison of layouts would not notice faults. Every fault here has occurred in some trainer.
#include <algorithm>

#include "altering_communicator.h"
#include "comparison.h"
#include "layout_case.h"
#include "model/initial_values.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

constexpr double bar = 1e-10;
enum class Share { shards, replicas };  // 4 ranks: ep 2 with FSDP over 2, emb 4; or ep 2, emb 2 with two replicas

struct Fault {
  std::string name;
  Share share = Share::shards;
  Alterations alterations;
  Sabotage sabotage;
};

LayoutCase base_case(Share share) {
  LayoutCase c;
  c.world = 4;
  c.groups = Groups::ep_emb;
  c.replicas = share == Share::replicas ? 2 : 1;
  c.micro_steps = MicroSteps::two;
  return c;
}

bool is_expert(const std::string& fqn) { return fqn.find(".experts.") != std::string::npos; }

// Takes the start and the wait of what `is_meant` out of the program.
template <class IsMeant>
std::function<void(program::Program&)> without(IsMeant is_meant) {
  return [=](program::Program& program) {
    const auto erased = std::erase_if(program.instructions, is_meant);
    REQUIRE(erased > 0);
  };
}

program::Op operation(const program::Instruction& i) { return i.op == program::Op::wait ? i.waits_for : i.op; }

void scale(void* data, std::int64_t elements, double factor) {
  std::transform(static_cast<double*>(data), static_cast<double*>(data) + elements, static_cast<double*>(data),
                 [&](double value) { return value * factor; });
}

void add_gradient_faults(std::vector<Fault>& faults) {
  faults.push_back(
      {.name = "gradients of experts twice as large", .sabotage = {.gradients = [](TensorsByName& gradients) {
                                                        for (auto& [fqn, gradient] : gradients)
                                                          if (is_expert(fqn)) gradient.mul_(2);
                                                      }}});
  faults.push_back({.name = "a reduction of the experts' gradients counted twice",
                    .alterations = {.reduces_twice = [](const std::string& group) { return group == "ep_fsdp"; }}});
  faults.push_back({.name = "no sum over replicas",
                    .share = Share::replicas,
                    .sabotage = {.program = without([](const program::Instruction& i) {
                                   return operation(i) == program::Op::sum && i.sum == program::SumKind::replicas;
                                 })}});
  faults.push_back({.name = "one unit is not reduced in one micro-step",
                    .sabotage = {.program = [](auto& program) {
                      const auto unit = std::find(program.units.begin(), program.units.end(), "layers.1.attention");
                      const auto index = static_cast<std::int32_t>(unit - program.units.begin());
                      without([=](const program::Instruction& i) {
                        return operation(i) == program::Op::reduce && i.target == index && i.micro == 1;
                      })(program);
                    }}});
  faults.push_back({.name = "the norm counts every replica",
                    .share = Share::replicas,
                    .sabotage = {.assembly = [](train::Assembly& assembly) {
                      for (auto& p : assembly.store().parameters()) p.is_primary = true;
                    }}});
}

void add_exchange_faults(std::vector<Fault>& faults) {
  using comm::ElementType;
  faults.push_back({.name = "partial sums come back to other tokens",
                    .alterations = {.rows_received = [](const std::string& group, ElementType type, void* data,
                                                        std::int64_t rows, std::int64_t row_elements) {
                      if (group != "ep" || type != ElementType::float64 || row_elements == 1 || rows < 2) return;
                      auto* values = static_cast<double*>(data);
                      std::rotate(values, values + row_elements, values + rows * row_elements);
                    }}});
  faults.push_back({.name = "the weights of slots do not arrive",
                    .alterations = {.rows_received = [](const std::string& group, ElementType type, void* data,
                                                        std::int64_t rows, std::int64_t row_elements) {
                      if (group == "ep" && type == ElementType::float64 && row_elements == 1) scale(data, rows, 0);
                    }}});
  faults.push_back({.name = "rows of the embedding, or their gradients, of another size",
                    .alterations = {.rows_received = [](const std::string& group, ElementType type, void* data,
                                                        std::int64_t rows, std::int64_t row_elements) {
                      if (group == "emb" && type == ElementType::float64) scale(data, rows * row_elements, 1.5);
                    }}});
}

void add_value_faults(std::vector<Fault>& faults) {
  using comm::ElementType;
  faults.push_back(
      {.name = "one block of a gathered tensor is dropped",
       .alterations = {.gathered = [](const std::string& group, const std::vector<comm::GatherBlock>& blocks) {
         if (group != "fsdp") return;
         const auto& piece = blocks.front().pieces.front();
         for (std::int64_t row = 0; row < piece.rows; ++row)
           scale(static_cast<double*>(piece.data) + row * piece.stride_elements, piece.row_elements, 0);
       }}});
  faults.push_back({.name = "experts in each other's place",
                    .sabotage = {.assembly = [](train::Assembly& assembly) {
                      const auto& b = assembly.blueprint();
                      for (auto& p : assembly.store().parameters()) {
                        if (!is_expert(p.placement.parameter.fqn)) continue;
                        auto box = p.box;
                        const auto experts = p.placement.parameter.shape.front();
                        box.dims[0] = {experts - p.box.dims[0].end, experts - p.box.dims[0].begin};
                        model::fill_initial_values(
                            p.placement.parameter, box, b.architecture.initial_of(p.placement.parameter.fqn),
                            b.architecture.config().initializer_range, b.settings.train.seed, p.master);
                      }
                    }}});
  faults.push_back({.name = "initial values differ by rank", .sabotage = {.blueprint = [](train::Blueprint& blueprint) {
                                                               blueprint.settings.train.seed += world().rank();
                                                             }}});
  const auto not_summed = [](ElementType meant, std::size_t from, std::size_t bytes_from) {
    return [=](const std::string& group, ElementType type, void* data, const void* before, std::size_t bytes) {
      if (group == "world" && type == meant && bytes >= from && bytes <= bytes_from) std::memcpy(data, before, bytes);
    };
  };
  faults.push_back({.name = "each rank divides by its own number of valid tokens",
                    .alterations = {.reduced = not_summed(ElementType::float64, 0, 10 * sizeof(double))}});
  faults.push_back({.name = "the balance loss counts a rank's own slots only",
                    .alterations = {.reduced = not_summed(ElementType::int64, 0, 1 << 20)}});
}

std::vector<Fault> all_faults() {
  std::vector<Fault> faults;
  add_gradient_faults(faults);
  add_exchange_faults(faults);
  add_value_faults(faults);
  return faults;
}

TEST_CASE("each of these faults makes a layout differ from one rank") {
  if (world().size() != 4) return;
  const SmallRun files;
  files.folder().write("plan.json", plan_with_own_group());
  std::map<Share, Reference> references;
  const auto deviation = [&](Share share, const Fault& fault) {
    const auto c = base_case(share);
    if (!references.contains(share)) references[share] = train_alone(files.settings(c.reference_words()), 1);
    const auto altered = std::make_shared<AlteringCommunicator>(world().communicator(),
                                                                std::make_shared<Alterations>(fault.alterations));
    return compare(files.settings(c.words(files.folder() / "plan.json")), altered, references.at(share), fault.sabotage)
        .largest();
  };
  for (const auto share : {Share::shards, Share::replicas}) CHECK_ON_ALL(deviation(share, {.name = "none"}) <= bar);
  const auto faults = all_faults();
  CHECK(faults.size() >= 10);
  for (const auto& fault : faults) {
    INFO(fault.name);
    const auto found = deviation(fault.share, fault);
    CHECK(failing_ranks(found <= 1000 * bar) != "none");  // some rank sees it
  }
}

}  // namespace
}  // namespace tessera::test
