"""Training and exporting the models of retrieval. Needs the extra `train`; nothing here is imported when serving."""
