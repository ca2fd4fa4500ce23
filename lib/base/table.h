// A text table with aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::base {

enum class Align { left, right };

class Table {
 public:
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns);

  // Adds a row of one cell per column.
  void add_row(std::vector<std::string> cells);
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }

  // Returns the headings, a line of dashes and the rows, each line after `indent` spaces and with '\n' at its end. Two
  // spaces separate columns; lines have no trailing space. Counts widths in code points.
  [[nodiscard]] std::string str(std::size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera::base
