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

  // One cell per column.
  void add_row(std::vector<std::string> cells);
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }

  // Heading, a line of dashes, the rows; two spaces between columns, no space at the end of a line; ends with '\n'.
  // Widths are counted in code points. `indent` spaces before each line.
  [[nodiscard]] std::string str(std::size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera::base
