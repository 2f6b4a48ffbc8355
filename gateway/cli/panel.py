"""How a command is told which judges to use."""

from __future__ import annotations

from typing import Final

HELP: Final = (
    "A judge: the name of one in the configuration, or NAME=KIND:MODEL@BASE_URL with KIND openai or anthropic, e.g. "
    "large=openai:qwen@http://127.0.0.1:8092/v1. Its key is read from the environment variable NAME_API_KEY. "
    "Give it several times for several judges."
)
