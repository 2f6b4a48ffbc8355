"""The modes of a route: when events leave, what a bad verdict does, what is kept of bodies. Pure data.

`Release` says only *when* events leave, `Action` what a bad verdict does. `TABLE` writes every pair down once, with
what it does and how a stream ends; `refusal_of` names the cells that cannot work, and the configuration refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Release(StrEnum):
    """When events leave."""

    LIVE = "live"
    SENTENCE = "sentence"
    HELD = "held"
    DETACHED = "detached"


class Action(StrEnum):
    """What a bad verdict does."""

    ANNOTATE = "annotate"
    BLOCK = "block"
    REPAIR = "repair"
    FILTER = "filter"


class BlockResponse(StrEnum):
    """How a block looks to the client: a 422, or a 200 with a refusal."""

    ERROR = "error"
    REFUSAL = "refusal"


class BodyPolicy(StrEnum):
    """What a route does with bodies: keep them, keep a keyed hash of them, or drop them."""

    KEEP = "keep"
    HASH = "hash"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table release x action: what a plain client gets, how a stream ends, or why it cannot be."""

    plain: str = ""
    stream: str = ""
    refused: str = ""


TABLE: dict[tuple[Release, Action], Cell] = {
    (Release.LIVE, Action.ANNOTATE): Cell(
        plain="answer with annotations and verdict",
        stream="deltas flow; annotations, then the finish chunk with the verdict, then [DONE]",
    ),
    (Release.LIVE, Action.BLOCK): Cell(
        refused="release: live has sent the text before the verdict exists, so action: block cannot work; "
        "use release: held or release: sentence",
    ),
    (Release.LIVE, Action.REPAIR): Cell(
        refused="release: live has sent the text before the verdict exists, so action: repair cannot work; "
        "use release: held",
    ),
    (Release.LIVE, Action.FILTER): Cell(
        refused="release: live has sent the text before the verdict exists, so action: filter cannot work; "
        "use release: held or release: sentence",
    ),
    (Release.SENTENCE, Action.ANNOTATE): Cell(
        plain="answer with annotations and verdict",
        stream="each sentence leaves once its facts are checked; then as live",
    ),
    (Release.SENTENCE, Action.BLOCK): Cell(
        plain="200 with the sentences before the failed one, a refusal and finish_reason content_filter",
        stream="sentences leave until one fails; then refusal and finish_reason content_filter, then [DONE]",
    ),
    (Release.SENTENCE, Action.REPAIR): Cell(
        refused="release: sentence has sent sentences before the whole verdict exists, so action: repair cannot work; "
        "use release: held",
    ),
    (Release.SENTENCE, Action.FILTER): Cell(
        plain="answer without the failed sentences, offsets recomputed",
        stream="failed sentences are left out as the text flows; then as live",
    ),
    (Release.HELD, Action.ANNOTATE): Cell(
        plain="answer with annotations and verdict",
        stream="everything leaves after the verdict, in its original deltas",
    ),
    (Release.HELD, Action.BLOCK): Cell(
        plain="422 grounding_failed, or 200 with a refusal and finish_reason content_filter",
        stream="the same; after a keep-alive has committed status 200, one error event and the end",
    ),
    (Release.HELD, Action.REPAIR): Cell(
        plain="the upstream is asked once more with the failed facts named, and its new answer is checked",
        stream="the same, the new answer's deltas leave after its verdict",
    ),
    (Release.HELD, Action.FILTER): Cell(
        plain="answer without the failed sentences, offsets recomputed",
        stream="the same, as one delta per choice",
    ),
    (Release.DETACHED, Action.ANNOTATE): Cell(
        plain="the upstream's answer at once; the verdict goes to the ledger only",
        stream="the same, delta by delta",
    ),
    (Release.DETACHED, Action.BLOCK): Cell(
        refused="release: detached serves the client before the check runs, so action: block cannot work; "
        "use action: annotate",
    ),
    (Release.DETACHED, Action.REPAIR): Cell(
        refused="release: detached serves the client before the check runs, so action: repair cannot work; "
        "use action: annotate",
    ),
    (Release.DETACHED, Action.FILTER): Cell(
        refused="release: detached serves the client before the check runs, so action: filter cannot work; "
        "use action: annotate",
    ),
}


def refusal_of(release: Release, action: Action, block_response: BlockResponse, *, whole_answer: bool) -> str:
    """Why a combination cannot work, with the remedy, or "".

    `whole_answer` tells that the check only knows a verdict for the whole answer.
    """
    cell = TABLE[release, action]
    if cell.refused:
        return cell.refused
    if release is Release.SENTENCE and whole_answer:
        return (
            "release: sentence needs a check that judges piece by piece, this one judges the whole; use release: held"
        )
    if release is Release.SENTENCE and action is Action.BLOCK and block_response is BlockResponse.ERROR:
        return (
            "release: sentence may have sent text before a fact fails, so a 422 cannot be sent any more; "
            "use block_response: refusal, or release: held"
        )
    return ""
