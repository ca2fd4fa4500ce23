// Functions that make the rows of the field table: one call per row, bound to a member of the settings tree by a member
// pointer. For the fields_*.cpp files only.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "config/field.h"

namespace tessera::config {

// Returns the member of the tree that has the type Section; each such type occurs once.
template <class Section>
Section& section_of(Draft& draft) {
  Settings& s = draft.settings;
  if constexpr (std::is_same_v<Section, ModelSettings>)
    return s.model;
  else if constexpr (std::is_same_v<Section, DataSettings>)
    return s.data;
  else if constexpr (std::is_same_v<Section, TrainSettings>)
    return s.train;
  else if constexpr (std::is_same_v<Section, GradientCheckpointingSettings>)
    return s.train.gradient_checkpointing;
  else if constexpr (std::is_same_v<Section, OptimizerSettings>)
    return s.train.optimizer;
  else if constexpr (std::is_same_v<Section, AcceleratorSettings>)
    return s.train.accelerator;
  else if constexpr (std::is_same_v<Section, FsdpSettings>)
    return s.train.accelerator.fsdp_config;
  else if constexpr (std::is_same_v<Section, CheckpointSettings>)
    return s.train.checkpoint;
  else if constexpr (std::is_same_v<Section, LogSettings>)
    return s.train.log;
  else {
    static_assert(std::is_same_v<Section, DebugSettings>);
    return s.train.debug;
  }
}

template <class Section>
const Section& section_of(const Draft& draft) {
  return section_of<Section>(const_cast<Draft&>(draft));  // no member is changed: the reference returned is const
}

// The texts of a row in --help and the manual (Field::help and Field::observe).
struct Words {
  std::string help;
  std::string observe;
};

// A row for a member whose type is one of Value's alternatives.
template <class Section, class T>
Field row(std::string path, T Section::*member, Form form, std::vector<std::string> example, Words words) {
  Field field{.path = std::move(path),
              .group = {},
              .form = std::move(form),
              .help = std::move(words.help),
              .observe = std::move(words.observe)};
  field.example = std::move(example);
  field.get = [member](const Draft& d) -> std::optional<Value> { return Value(section_of<Section>(d).*member); };
  field.set = [member](Draft& d, const Value& v) { section_of<Section>(d).*member = std::get<T>(v); };
  return field;
}

template <class Section>
Field boolean(std::string path, bool Section::*member, Words words) {
  const bool fallback = section_of<Section>(Draft{}).*member;
  return row(std::move(path), member, {.kind = Kind::boolean}, {fallback ? "false" : "true"}, std::move(words));
}

template <class Section>
Field integer(std::string path, std::int64_t Section::*member, Range range, std::string example, Words words) {
  return row(std::move(path), member, {.kind = Kind::integer, .range = range}, {std::move(example)}, std::move(words));
}

// An integer, or the word `auto`, which the tree stores as `automatic`.
template <class Section>
Field integer_or_auto(std::string path, std::int64_t Section::*member, Range range, std::string example, Words words) {
  Field field = integer(std::move(path), member, range, std::move(example), std::move(words));
  field.form.words = {"auto"};
  field.get = [member](const Draft& d) -> std::optional<Value> {
    const auto x = section_of<Section>(d).*member;
    return x == automatic ? Value(std::string("auto")) : Value(x);
  };
  field.set = [member](Draft& d, const Value& v) {
    const auto* number = std::get_if<std::int64_t>(&v);
    section_of<Section>(d).*member = number != nullptr ? *number : automatic;
  };
  return field;
}

template <class Section>
Field number(std::string path, double Section::*member, Range range, std::string example, Words words) {
  return row(std::move(path), member, {.kind = Kind::number, .range = range}, {std::move(example)}, std::move(words));
}

template <class Section>
Field text(std::string path, std::string Section::*member, Kind kind, std::string example, Words words) {
  return row(std::move(path), member, {.kind = kind}, {std::move(example)}, std::move(words));
}

template <class Section, class T>
Field list(std::string path, std::vector<T> Section::*member, Kind kind, Range range, std::vector<std::string> example,
           Words words) {
  return row(std::move(path), member, {.kind = kind, .range = range}, std::move(example), std::move(words));
}

// An enumeration; `names` in the order of its enumerators, from 0.
template <class Section, class E>
Field word(std::string path, E Section::*member, std::vector<std::string> names, std::string example, Words words) {
  Field field{.path = std::move(path),
              .group = {},
              .form = {.kind = Kind::word, .words = names},
              .help = std::move(words.help),
              .observe = std::move(words.observe)};
  field.example = {std::move(example)};
  field.get = [member, names](const Draft& d) -> std::optional<Value> {
    return Value(names.at(static_cast<std::size_t>(section_of<Section>(d).*member)));
  };
  field.set = [member, names](Draft& d, const Value& v) {
    std::size_t index = 0;
    while (names.at(index) != std::get<std::string>(v)) ++index;
    section_of<Section>(d).*member = static_cast<E>(index);
  };
  return field;
}

// An integer or text that may be absent: then it is 0 or empty in the tree and null in JSON. `absent` says in --help
// and the manual what an absent value means.
template <class Section, class T>
Field optional_row(std::string path, T Section::*member, Form form, std::string absent, std::string example,
                   Words words) {
  form.absence = Absence::allowed;
  Field field = row(std::move(path), member, std::move(form), {std::move(example)}, std::move(words));
  field.absent = std::move(absent);
  field.get = [member](const Draft& d) -> std::optional<Value> {
    const T& x = section_of<Section>(d).*member;
    return x == T{} ? Value(std::monostate{}) : Value(x);
  };
  field.set = [member](Draft& d, const Value& v) {
    section_of<Section>(d).*member = std::holds_alternative<std::monostate>(v) ? T{} : std::get<T>(v);
  };
  return field;
}

// Makes every value but the default an error until `part` is built.
inline Field not_yet(Field field, std::string part) {
  field.not_yet = std::move(part);
  return field;
}

// Sets what a resumed run does if the value changed, for rows where that is not harmless.
inline Field on_resume(OnResume what, Field field) {
  field.on_resume = what;
  return field;
}
inline std::vector<Field> on_resume(OnResume what, std::vector<Field> rows) {
  for (Field& field : rows) field.on_resume = what;
  return rows;
}

// Adds the options that the row's example needs to have an effect.
inline Field with(Field field, std::vector<std::string> options) {
  field.beside = std::move(options);
  return field;
}

// Gives every row of a section its heading and adds it to the table.
inline void add_rows(std::vector<Field>& table, const std::string& group, std::vector<Field> rows) {
  for (Field& field : rows) {
    field.group = group;
    table.push_back(std::move(field));
  }
}

void add_model_fields(std::vector<Field>& table);
void add_data_fields(std::vector<Field>& table);
void add_train_fields(std::vector<Field>& table);
void add_optimizer_fields(std::vector<Field>& table);
void add_accelerator_fields(std::vector<Field>& table);
void add_output_fields(std::vector<Field>& table);

}  // namespace tessera::config
