"""Servers that benchmarks run against: a fast upstream and the bare relay that sets the mark."""
