"""The work of `check review`: a review, a repository and judges in, the treated review and a report out."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checks.errors import RepositoryError
from checks.review.check import ReviewCheck, ReviewSettings
from checks.review.credentials import RepositorySettings
from checks.review.decide import Variant
from checks.review.findings import apply
from checks.review.repository import RepositoryPool
from checks.types import Case, CheckedIssue, Reason, Status, TextEdit, Verdict
from gateway.cli.output import ENVIRONMENT, FAILED, OK, USAGE, emit, fail, note
from gateway.cli.seats import chosen, opened

_NAME = "repository"
_MARKS = {"valid": "✓", "hallucination": "✗", "undetermined": "?", None: "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was told. `-` as `source` or `output` is a standard stream."""

    repository: Path
    revision: str
    base: str | None
    source: Path
    judges: tuple[str, ...]
    config: Path | None
    variant: str | None
    hops: int
    rules: tuple[str, ...]
    repo_root: str | None
    max_cost_usd: float | None
    mode: str
    output: Path | None
    as_json: bool


def check_review(asked: Asked) -> int:
    """Check, write what was asked for, and give the exit code."""
    text = sys.stdin.read() if str(asked.source) == "-" else _read(asked.source)
    if not asked.repository.is_dir():
        fail(f"{asked.repository} is no folder", "--repository names a git repository on this machine", USAGE)
    verdict = asyncio.run(_check(asked, text))
    _write(asked, text, verdict)
    _tell(asked, verdict)
    if verdict.status is Status.PASSED or verdict.reason is Reason.NO_FACTS:
        return OK
    return FAILED if verdict.status is Status.FAILED else ENVIRONMENT


def _read(path: Path) -> str:
    # Offsets and line ends must be those of the file.
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as source:
        return source.read()


async def _check(asked: Asked, text: str) -> Verdict:
    configs = chosen(asked.judges, asked.config)
    variant = asked.variant or (Variant.SINGLE.value if len(configs) == 1 else Variant.MULTI_HOP.value)
    settings = ReviewSettings(
        variant=Variant(variant),
        hops=asked.hops,
        rules=asked.rules,
        max_cost_usd=asked.max_cost_usd,
        versions={name: config.model for name, config in configs.items()},
    )
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = RepositorySettings(name=_NAME, url=str(asked.repository.resolve()))
        pool = await stack.enter_async_context(RepositoryPool([place], scratch))
        _open(pool, asked.repository)
        judges = await opened(configs, stack)
        options: dict[str, Any] = {
            "repository": _NAME,
            "revision": asked.revision,
            "base_revision": asked.base,
            "repo_root": asked.repo_root,
            "messages": (),
        }
        return await ReviewCheck(judges, pool, settings).check(Case("", text, options=options))


def _open(pool: RepositoryPool, path: Path) -> None:
    # A folder that is no repository is a slip on the command line, not a commit that could not be found.
    try:
        pool.mirror(_NAME).repository()
    except RepositoryError:
        hint = "--repository takes the top folder of a git repository, or a bare one, that this user owns"
        fail(f"{path} cannot be opened as a git repository", hint, USAGE)


def _write(asked: Asked, text: str, verdict: Verdict) -> None:
    if asked.output is None or asked.mode == "report":
        return
    edits: tuple[TextEdit, ...] = verdict.filtered if asked.mode == "filter" else verdict.marked
    treated = apply(text, edits)
    if str(asked.output) == "-":
        sys.stdout.write(treated)
        return
    with asked.output.open("w", encoding="utf-8", errors="surrogateescape", newline="") as sink:
        sink.write(treated)


def _tell(asked: Asked, verdict: Verdict) -> None:
    """The report on standard output, or on standard error where the review itself goes to the former."""
    reason = f" ({verdict.reason.value})" if verdict.reason is not None else ""
    summary = f"{verdict.status.value}{reason}{f': {verdict.detail}' if verdict.detail else ''}"
    if str(asked.output) == "-":
        for issue in verdict.issues:
            note(_line(issue))
        note(summary)
        return
    if asked.as_json:
        emit(_report(verdict), as_json=True)
        return
    emit(None, as_json=False, text="\n".join([*(_line(issue) for issue in verdict.issues), summary]))


def _line(issue: CheckedIssue) -> str:
    label = issue.label.value if issue.label is not None else None
    place = f"{issue.path or '-'}{f':{issue.start_line}' if issue.start_line is not None else ''}"
    why = next((str(vote["reason"]) for vote in reversed(issue.votes) if vote["label"] == label), "")
    said = label or f"not checked: {issue.reason.value if issue.reason else ''}"
    line = f"{_MARKS[label]} {place} {issue.title} [{said}; {issue.action}]"
    return f"{line}\n    {why}" if why and label != "valid" else line


def _report(verdict: Verdict) -> dict[str, Any]:
    issues = []
    for issue in verdict.issues:
        told = asdict(issue)
        # Requests hold the code; the report is for a pipeline's log.
        told["calls"] = [{k: v for k, v in call.items() if k not in ("request", "reply")} for call in told["calls"]]
        issues.append(told)
    return {
        "status": verdict.status.value,
        "reason": verdict.reason.value if verdict.reason is not None else None,
        "detail": verdict.detail,
        "issues": issues,
        "details": dict(verdict.details),
        "versions": dict(verdict.versions),
        "seconds": dict(verdict.seconds),
    }
