"""Dialects as pure functions: bytes to values and back. No I/O, no clock."""
