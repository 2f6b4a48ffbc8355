"""A loader of the tests' own, as a third party would write one: a JSON list of documents."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from retrieval.errors import LoadError
from retrieval.types import Document


class JsonLoader:
    """`[{"id", "text", "metadata"}]`; an entry `{"error"}` raises it, after the entries before it were given out."""

    suffixes: tuple[str, ...] = (".json",)

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        try:
            rows = json.loads(path.read_text())
        except ValueError as error:
            raise LoadError(f"{path} is no JSON", hint="repair the file") from error
        for row in rows:
            if "error" in row:
                raise {"load": LoadError("entry cut off", hint="repair the entry"), "bug": KeyError("column")}[
                    row["error"]
                ]
            yield Document(
                id=row["id"],
                source=str(path),
                title=row.get("title", ""),
                text=row["text"],
                sha256=hashlib.sha256(row["text"].encode()).hexdigest(),
                metadata=row.get("metadata", {}),
            )


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(rows))
    return path
