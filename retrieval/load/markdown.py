"""Markdown files (CommonMark with tables): rendered, then read like a page: what is hidden there is hidden here.

Front matter in YAML gives title, address and metadata. Knows nothing of files but how to read one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from retrieval.errors import LoadError
from retrieval.load.base import MAX_BYTES, MAX_METADATA, build_document, groups_of
from retrieval.load.clean import clean_line
from retrieval.load.html import read_page
from retrieval.load.text import read_text
from retrieval.types import Document

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_GROUPS = re.compile(r"^\s*[\"']?groups[\"']?\s*:", re.MULTILINE)
MAX_FRONT = 20_000


class MarkdownLoader:
    """Markdown files, one document each; headings become sections."""

    suffixes: tuple[str, ...] = (".md", ".markdown", ".mdown", ".mkd", ".mdx")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The file as one document; raises `LoadError`."""
        from markdown_it import MarkdownIt  # a gateway whose files have not changed does not wait for it

        try:
            front, body = _front_matter(read_text(path, self._max_bytes))
        except ValueError as error:
            raise LoadError(f"{path}: front matter: {error}", hint="as in `groups: [support, sales]`") from error
        try:
            html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(body)
        except RecursionError as error:
            raise LoadError(f"{path} is nested too deeply to be read", hint="flatten its lists or quotes") from error
        page = read_page(f"<body>{html}")
        first = next((section.heading[-1] for section in page.sections), "")
        content = replace(
            page,
            format="markdown",
            title=front.get("title", "") or first,
            url=front.get("url") or front.get("canonical_url"),
            metadata={name: value for name, value in front.items() if name not in ("title", "url")},
        )
        return [build_document(path, root, content)]


def _front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """(scalars of the front matter as text, the rest). What is no mapping in YAML is text like any other.

    Raises `ValueError` when it seems to say who may read the document and cannot be understood.
    """
    match = _FRONT.match(text)
    if match is None:
        return {}, text
    values = _yaml(match[1] or "") if len(match[0]) <= MAX_FRONT else None
    if not isinstance(values, dict):
        if _GROUPS.search(match[1] or ""):
            raise ValueError("it names groups but is no YAML mapping")
        return {}, text if (match[1] or "").strip() else text[match.end() :]
    scalars = {clean_line(str(name)): _scalar(value) for name, value in values.items() if name != "groups"}
    scalars = {name: value for name, value in scalars.items() if value}
    if values.get("groups") is not None:
        scalars["groups"] = groups_of(values["groups"])
    return scalars, text[match.end() :]


def _yaml(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, (str, int, float)):
        return clean_line(str(value))[:MAX_METADATA]
    if isinstance(value, list):
        return ",".join(part for part in (_scalar(item) for item in value if not isinstance(item, list)) if part)
    return ""
