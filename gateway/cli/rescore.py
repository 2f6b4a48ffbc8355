"""`verdicts rescore`: what other thresholds would have made of the recorded answers, without asking any model.

The seven probabilities of every passage are in the ledger; they are put together anew. What was never judged stays as
it was recorded: passages that a judge failed on are known by number only where that decided the fact. A fact that was
refuted while some of its passages went unjudged counts as if they had not been there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from checks.facts.aggregate import Aggregation, answer_outcome, fact_outcome
from checks.types import CheckedFact, Evidence, FactLabel, Reason, Segment, Status
from gateway.app.judging import aggregation_of
from gateway.cli.ledger import with_config
from gateway.cli.output import OK, USAGE, emit, fail
from gateway.config.model import FactCheckConfig, GatewayConfig
from gateway.config.problems import listed, suggestion
from gateway.ledger.labels import Labels, Span
from gateway.ledger.store import PostgresStore
from retrieval.types import Passage

_UNJUDGED: Final = re.compile(r"(\d+) passages not judged")
_NOWHERE: Final = Segment("", 0, 0)
_UNKNOWN: Final = Passage("", "", "", "", 0, 0, sha256="")
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to change of the route's aggregation; None keeps what it has."""

    kind: str | None = None
    threshold: float | None = None
    support_threshold: float | None = None
    refute_threshold: float | None = None
    fails: Mapping[FactLabel, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """What came of it. Keys are (status as recorded, status under the settings)."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    facts: Counter[tuple[str, str]] = field(default_factory=Counter)
    changed: list[dict[str, Any]] = field(default_factory=list)
    labelled: int = 0
    right_before: int = 0
    right_after: int = 0


def rescore(config_path: Path, span: Span, settings: Settings, *, as_json: bool) -> int:
    """Replay a route's checks and print what would have been another verdict."""

    async def replay(config: GatewayConfig, store: PostgresStore) -> tuple[Aggregation, Changes]:
        aggregation = aggregation_under(config, str(span.route), settings)
        changes = Changes()
        async for page in Labels(store).replayable(span):
            for check in page:
                note_changes(changes, check, aggregation)
        return aggregation, changes

    aggregation, changes = with_config(config_path, replay)
    if not changes.answers:
        fail(f"there are no checks of facts on route '{span.route}'", "widen --since and --until")
    moves = {"answers": _moves(changes.answers), "facts": _moves(changes.facts)}
    data = {
        "aggregation": aggregation.version,
        **moves,
        "labels": {
            "facts": changes.labelled,
            "right_before": changes.right_before,
            "right_after": changes.right_after,
        },
        "changed": changes.changed,
    }
    rows = [(what, move["was"], move["would_be"], move["count"]) for what in moves for move in moves[what]]
    emit(data, as_json=as_json, table=(("of", "recorded", "would be", "count"), rows), text=_said(aggregation, changes))
    return OK


def aggregation_under(config: GatewayConfig, route: str, settings: Settings) -> Aggregation:
    """The route's aggregation with the changes. Ends the process for a route without a fact-check."""
    section = config.routes.get(route)
    if section is None:
        hint = f"known: {listed(config.routes)}"
        fail(f"there is no route '{route}'{suggestion(route, config.routes)}", hint, USAGE)
    if not isinstance(section.check, FactCheckConfig):
        fail(f"route '{route}' checks no facts", "name a route with check: {kind: facts}", USAGE)
    base = aggregation_of(section.check.aggregation)
    if settings.kind is not None:
        base = replace(base, kind=settings.kind)  # type: ignore[arg-type]
    if settings.threshold is not None:
        if base.kind == "graded":
            base = replace(base, fail_threshold=settings.threshold)
        else:
            base = replace(base, refute_threshold=settings.threshold)
    if settings.support_threshold is not None:
        base = replace(base, support_threshold=settings.support_threshold)
    if settings.refute_threshold is not None:
        base = replace(base, refute_threshold=settings.refute_threshold)
    return replace(base, fails={**base.fails, **settings.fails})


def note_changes(changes: Changes, check: Mapping[str, Any], aggregation: Aggregation) -> None:
    """Replay one recorded check and note what changed."""
    facts = [replayed(fact, aggregation) for fact in check["facts"]]
    outcome = answer_outcome(facts, aggregation)
    status = outcome.status
    if check["rule"] == "media_not_checked" and status is Status.PASSED:
        status = Status.NOT_CHECKED
    if not facts:
        status = Status(check["status"])
    moved = []
    for recorded, fact in zip(check["facts"], facts, strict=True):
        changes.facts[recorded["status"], fact.status.value] += 1
        if (recorded["status"], recorded["label"]) != (fact.status.value, fact.label):
            now = {"status": fact.status.value, "label": fact.label, "rule": fact.rule, "score": fact.score}
            was = {name: recorded[name] for name in now}
            moved.append({"fact": recorded["position"], "was": was, "would_be": now})
        _compare(changes, recorded, fact, aggregation)
    changes.answers[check["status"], status.value] += 1
    if moved or check["status"] != status.value:
        changes.changed.append(
            {
                "exchange": check["exchange"],
                "choice": check["choice"],
                "action": check["action"],
                "was": check["status"],
                "would_be": status.value,
                "facts": moved,
            }
        )


def replayed(recorded: Mapping[str, Any], aggregation: Aggregation) -> CheckedFact:
    """A recorded fact under other settings. What its passages cannot tell stays as recorded."""
    label = FactLabel(recorded["label"]) if recorded["label"] else None
    reason = Reason(recorded["reason"]) if recorded["reason"] else None
    kept = CheckedFact(_NOWHERE, Status(recorded["status"]), label, reason, score=recorded["score"])
    kept = replace(kept, rule=recorded["rule"])
    evidence = [_evidence(vector) for vector in recorded["evidence"]]
    if not evidence:
        return kept
    missing = _UNJUDGED.fullmatch(recorded["rule"])
    unjudged = [reason or Reason.JUDGE_UNAVAILABLE] * int(missing[1]) if missing else []
    outcome = fact_outcome(evidence, unjudged, aggregation)
    if recorded["rule"].startswith("search_failed") and outcome.label is FactLabel.NOT_SUPPORTED:
        return kept
    return CheckedFact(_NOWHERE, outcome.status, outcome.label, outcome.reason, score=outcome.score, rule=outcome.rule)


def _evidence(vector: Sequence[float]) -> Evidence:
    one, two, three, four, five, six, seven = vector
    return Evidence(_UNKNOWN, 0.0, FactLabel.TRUE, 0.0, (one, two, three, four, five, six, seven))


def _compare(changes: Changes, recorded: Mapping[str, Any], fact: CheckedFact, aggregation: Aggregation) -> None:
    """Count facts that people labelled: was the verdict theirs, and would it be?"""
    said = {aggregation.status(FactLabel(label)) for label in recorded["people"]}
    if len(said) == 1:
        (wanted,) = said
        changes.labelled += 1
        changes.right_before += recorded["status"] == wanted
        changes.right_after += fact.status is wanted


def _moves(counts: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [{"was": was, "would_be": now, "count": counts[was, now]} for was, now in sorted(counts)]


def _said(aggregation: Aggregation, changes: Changes) -> str:
    lines = [f"under {aggregation.version}"]
    if changes.labelled:
        n = changes.labelled
        lines.append(f"of {n} facts that people labelled, right: {changes.right_before} -> {changes.right_after}")
    moved = [each for each in changes.changed if each["was"] != each["would_be"]]
    lines += [f"{each['exchange']}: {each['was']} -> {each['would_be']}" for each in moved[:_SHOWN]]
    if len(moved) > _SHOWN:
        lines.append(f"and {len(moved) - _SHOWN} more answers; --json has all")
    return "\n".join(lines)
