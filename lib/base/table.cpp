#include "base/table.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace tessera::base {
namespace {

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  expect(cells.size() == columns_.size(), "a row of {} cells in a table of {} columns", cells.size(), columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::str(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = code_points(columns_[c].heading);
    for (const auto& row : rows_) width = std::max(width, code_points(row[c]));
    widths.push_back(width);
  }
  const auto line_of = [&](auto&& cell) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string text = cell(c);
      const std::string space(widths[c] - code_points(text), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::left ? text + space : space + text;
    }
    return line;
  };
  std::string out;
  append_line(out, line_of([&](std::size_t c) { return columns_[c].heading; }));
  append_line(out, line_of([&](std::size_t c) { return std::string(widths[c], '-'); }));
  for (const auto& row : rows_) append_line(out, line_of([&](std::size_t c) { return row[c]; }));
  return out;
}

}  // namespace tessera::base
