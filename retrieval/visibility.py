"""Who may see a passage. Pure; the one place where the metadata key `groups` is understood.

`groups` names the groups that may see a document, separated by commas. Absent or blank means everybody. Knows nothing
of keys, tokens or where a caller's groups come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from retrieval.types import Scope

GROUPS_KEY = "groups"


def readers(metadata: Mapping[str, str]) -> frozenset[str] | None:
    """The groups that may see it, `None` for everybody. A value of commas only lets nobody in."""
    value = metadata.get(GROUPS_KEY, "")
    if not value.strip():
        return None
    return frozenset(name for part in value.split(",") if (name := part.strip()))


def visible(metadata: Mapping[str, str], scope: Scope) -> bool:
    """Whether a search of this scope may return a passage with this metadata."""
    allowed = readers(metadata)
    if allowed is not None and not (allowed & scope.groups):
        return False
    return all(metadata.get(key) == value for key, value in scope.filters.items())
