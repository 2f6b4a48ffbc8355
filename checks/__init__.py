"""Checks of a finished answer: facts against documents, review issues against a repository.

Knows nothing of HTTP, routes or the ledger; of ours it imports only `retrieval.types`.
"""
