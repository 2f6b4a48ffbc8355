"""The proxy: HTTP in, HTTP out, one exchange path, the release of answers and the verdict ledger."""

__version__ = "0.1.0"
