// If this failed, tables on the start page would not be aligned.
#include "base/table.h"
#include "support/catch.h"

using namespace tessera::base;

TEST_CASE("columns are aligned and lines have no space at their end") {
  Table table({{"name"}, {"size", Align::right}, {"note"}});
  table.add_row({"a", "5", "x"});
  table.add_row({"long name", "12345", ""});
  CHECK(table.str() ==
        "name        size  note\n"
        "---------  -----  ----\n"
        "a              5  x\n"
        "long name  12345\n");
  CHECK(table.rows() == 2);
}

TEST_CASE("width is counted in characters, not bytes") {
  Table table({{"u"}, {"v"}});
  table.add_row({"é", "1"});
  CHECK(table.str(2) == "  u  v\n  -  -\n  é  1\n");
}

TEST_CASE("a row of the wrong length is a programmer's error") {
  Table table({{"a"}});
  CHECK_THROWS_AS(table.add_row({"1", "2"}), std::logic_error);
}
