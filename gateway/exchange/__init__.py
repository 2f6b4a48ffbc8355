"""THE one path of a request: retrieve, ground, send, fold, check, release, record.

Knows nothing of HTTP servers, files or SQL; what it needs comes in as values and seams.
"""
