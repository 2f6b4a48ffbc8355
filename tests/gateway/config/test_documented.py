"""The guide names every key that the configuration takes, and the examples are configurations that are accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.config.describe import schema
from gateway.config.load import read

ROOT = Path(__file__).parents[3]


def keys() -> Iterator[tuple[str, str]]:
    """Every (section, key) of the JSON Schema."""
    document = schema()
    for name, section in (("top level", document), *document["$defs"].items()):
        for key in section.get("properties", {}):
            yield name, key


def test_the_guide_names_every_key_of_the_configuration() -> None:
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / "configuration.md").read_text(), flags=re.DOTALL)
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    missing = sorted({f"{section}.{key}" for section, key in keys() if key not in named})
    assert missing == []


EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/*.yaml") if path.stem in ("gateway", "full"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_is_accepted_as_it_stands(path: Path) -> None:
    reading: Any = read(path, {"HOME": "/root"})
    assert reading.problems == ()
