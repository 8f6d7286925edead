"""Stand-ins, reference clients and conformance suites, for Fairlead's tests and other projects'; needs no pytest."""
