// Sends rows between the owners of experts or embedding rows, and their gradients back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "executor/exchange_rows.h"
#include "executor/parts.h"
#include "executor/tape.h"
#include "executor/travels.h"
#include "program/program.h"

namespace tessera::executor {

class ExchangeRunner {
 public:
  // All must outlive the runner.
  ExchangeRunner(const Parts& parts, const program::Program& program, Tape& tape, Travels& travels)
      : parts_(parts), program_(program), tape_(tape), travels_(travels) {}

  // Starts the exchange; collective over its group. In a group of one rank nothing travels.
  void start(const program::Instruction& i);
  // Stores the values that have arrived, or adds the gradients that have.
  void finish(const program::Instruction& i);

 private:
  using Resource = program::Resource;

  // Sends one of the moves of the model step, in the direction of `i`.
  void send(const program::Instruction& i, const std::pair<architecture::ValueId, architecture::ValueId>& move);
  // Gives on the values or gradients in a group of one rank.
  void pass_on(const program::Instruction& i);
  // Returns the gradient that travels back; it is zero where no reader contributed one.
  [[nodiscard]] at::Tensor sent_back(const Resource& name, std::int64_t rows, const ExchangeRows& of) const;

  const Parts& parts_;
  const program::Program& program_;
  Tape& tape_;
  Travels& travels_;
  std::map<std::int32_t, std::vector<std::pair<Resource, at::Tensor>>> received_;  // by ticket
};

}  // namespace tessera::executor
