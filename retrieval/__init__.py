"""Documents in, passages out: loading, splitting, encoding, indexing and searching.

Knows nothing of HTTP, chat messages, verdicts or the gateway; imports nothing of ours from outside this package.
"""
