"""Judges: language models that answer in JSON, through the vendors' SDKs, and what their prompts and replies share."""
