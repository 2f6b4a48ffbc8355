"""Indexes: vectors under our own int64 ids. Knows nothing of texts, documents, permissions or encoders."""
