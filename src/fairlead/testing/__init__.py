"""Stand-ins, reference clients and conformance suites, for our tests and other people's; needs no pytest."""
