// The main function of the test programs of one rank.
#include "support/session.h"

int main(int argc, char** argv) { return tessera::test::run_tests(argc, argv); }
