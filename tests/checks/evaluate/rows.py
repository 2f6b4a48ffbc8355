"""Small labelled data for the tests of the evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GUIDE = "The Harbour Museum was opened on 4 June 1987 by the mayor Ada Lind. It shows 340 model ships."
GARDEN = "Tomatoes need six hours of sun a day and are watered in the morning."


def row(number: int, claim: str, label: str, stances: dict[str, str | None], **more: Any) -> dict[str, Any]:
    """One labelled fact; `stances` goes from text to stance."""
    evidence = [{"text": text, "title": "", "stance": stance} for text, stance in stances.items()]
    return {"id": f"f{number}", "answer_id": f"a{number}", "claim": claim, "label": label, "evidence": evidence, **more}


ROWS = [
    row(1, "It shows 340 model ships.", "true", {GUIDE: "supports", GARDEN: "irrelevant"}),
    row(2, "It shows 430 model ships.", "false", {GUIDE: "refutes", GARDEN: None}),
    row(3, "The Harbour Museum was opened on 4 June 1987.", "true", {GUIDE: "supports"}),
    row(4, "The Harbour Museum was opened on 4 June 1978.", "false", {GUIDE: "refutes"}),
    row(5, "Tomatoes are watered in the morning.", "true", {GARDEN: "supports", GUIDE: "irrelevant"}),
    row(6, "The mayor swims every day.", "not_supported", {GUIDE: "irrelevant"}),
    row(7, "Thank you for asking!", "needs_no_verification", {GUIDE: "irrelevant"}),
    row(8, "Nothing was found about this.", "not_supported", {}),
]
ANSWERS = [
    {"answer_id": f"a{n}", "label": right} for n, right in ((1, True), (2, False), (3, True), (4, False), (6, None))
]


def written(folder: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """The data as files under `folder`, which it returns."""
    dev = folder / "facts" / "dev"
    dev.mkdir(parents=True)
    for name, lines in (("museum", rows or ROWS), ("answers", ANSWERS)):
        (dev / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return folder
