"""The values and seams of checking. Pure: no I/O, no clock, no randomness.

Offsets count Unicode code points of `Case.answer`. Probabilities are over the seven fact labels, in the order of
`FactLabel`, and sum to 1. Failing to judge is a state of its own (`Status.NOT_CHECKED` with a `Reason`), no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from retrieval.types import Hit, Passage, Scope


class Status(StrEnum):
    """Outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


class Reason(StrEnum):
    """Why something was not checked."""

    NO_FACTS = "no_facts"
    NO_EVIDENCE = "no_evidence"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    JUDGE_REPLY_INVALID = "judge_reply_invalid"
    TIMEOUT = "timeout"
    UNSUPPORTED_CONTENT = "unsupported_content"
    LANGUAGE = "language"
    TOO_LONG = "too_long"
    CLIENT_CLOSED = "client_closed"
    DISABLED = "disabled"


class FactLabel(StrEnum):
    """The seven classes of a fact, in the order of every probability vector."""

    TRUE = "true"
    HALF_TRUE = "half_true"
    OPINIONS_DIFFER = "opinions_differ"
    NEEDS_NO_VERIFICATION = "needs_no_verification"
    NOT_SUPPORTED = "not_supported"
    FALSE = "false"
    ABSURD = "absurd"


FACT_LABELS: tuple[FactLabel, ...] = tuple(FactLabel)


class IssueLabel(StrEnum):
    """The three classes of a code-review issue."""

    VALID = "valid"
    HALLUCINATION = "hallucination"
    UNDETERMINED = "undetermined"


EVERYTHING = Scope()

Probabilities = tuple[float, float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the answer that may state a fact: `answer[start:end] == text`.

    `context` is what a reader needs beside it (a list's lead-in, a table's header row), "" if nothing.
    `checkable` is False for pieces that state nothing (chit-chat, refusals, questions, code).
    """

    text: str
    start: int
    end: int
    context: str = ""
    checkable: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """One passage as seen for one fact: its seven probabilities, the label they give, and the sentence that decided.

    `quote` is verbatim from the passage, with `quote_start`/`quote_end` in `passage.text` (code points), or "".
    """

    passage: Passage
    score: float
    label: FactLabel
    probability: float
    probabilities: Probabilities
    quote: str = ""
    quote_start: int = 0
    quote_end: int = 0


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One call of a judge as made: raw request and reply, the model the provider reported, tokens, cost, time.

    `error` is "" when the reply was usable. Credentials never appear here.
    """

    judge: str
    model: str
    purpose: str
    request: str
    reply: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class CheckedFact:
    """A fact with its verdict. `label` is None when it could not be judged; then `reason` says why.

    `status` is the outcome under the aggregation in force; `rule` names the rule that fired, `score` in [0, 1] is the
    probability that the fact is wrong (higher is worse).
    """

    segment: Segment
    status: Status
    label: FactLabel | None
    reason: Reason | None = None
    probabilities: Probabilities | None = None
    score: float | None = None
    questions: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    rule: str = ""
    calls: tuple[JudgeCall, ...] = ()


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace `text[start:end]` by `replacement`. Edits of one text are sorted and do not overlap.

    `part` names the text where an answer has several: "" is the content (a check judges one text and leaves it so),
    `tool_calls[0]` the arguments of the first tool call.
    """

    start: int
    end: int
    replacement: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class CheckedIssue:
    """An issue of a code review with its verdict; the review check fills it.

    `start`/`end` span it in the answer, in its `part` (see `TextEdit`). `action` is what the route's policy does with
    it (`keep`, `mark`, `drop`, `relocate`), `rule` the row of the decision table that fired. A vote has the keys
    `judge`, `hop`, `label`, `reason` (and `questions`, `quotes`, `abstained`), a hop `asked`, `matched`, `how` (and
    `candidates`); `files` lists what the judges saw (`path`, `blob`, `start_line`, `end_line`, `hop`), `evidence` what
    was found without a model (`kind`, `detail`).
    """

    path: str | None
    start_line: int | None
    end_line: int | None
    title: str
    status: Status
    label: IssueLabel | None
    reason: Reason | None = None
    votes: tuple[Mapping[str, Any], ...] = ()
    hop: Mapping[str, Any] | None = None
    calls: tuple[JudgeCall, ...] = ()
    start: int = 0
    end: int = 0
    severity: str | None = None
    action: str = "keep"
    rule: str = ""
    hops: tuple[Mapping[str, Any], ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What a check is given: one choice of one answer, with the conversation it answers.

    `query` is the user's question with follow-ups resolved, `history` the earlier turns as (role, text), oldest first,
    `hits` the passages that grounded the prompt (they may or may not be evidence: the check's collection decides),
    `scope` what its searches may see. `has_tool_calls` and `has_media` tell of content that is not in `answer`.
    `options` are for a code review: `repository`, `revision` and `base_revision` as the request named them, `messages`
    (every turn as (role, text), the last included), and `schema`, the JSON Schema that the caller wants the answer to
    meet, where there is one.
    """

    query: str
    answer: str
    choice: int = 0
    history: tuple[tuple[str, str], ...] = ()
    hits: tuple[Hit, ...] = ()
    scope: Scope = EVERYTHING
    refusal: str = ""
    has_tool_calls: bool = False
    has_media: bool = False
    truncated: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one choice, with everything an auditor needs to follow it.

    `versions` names classifier, aggregation, thresholds, prompt and index generation; `seconds` is time per step.
    `filtered` and `marked` are the edits that write a review's verdicts into the answer: for `filter` (hallucinated
    issues leave) and for `annotate` (they are marked in the format's own way). `details` names what is worth keeping
    about the whole: repository, revision, formats, notes.
    """

    kind: str
    status: Status
    reason: Reason | None = None
    choice: int = 0
    facts: tuple[CheckedFact, ...] = ()
    issues: tuple[CheckedIssue, ...] = ()
    rule: str = ""
    score: float | None = None
    detail: str = ""
    calls: tuple[JudgeCall, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    filtered: tuple[TextEdit, ...] = ()
    marked: tuple[TextEdit, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Check(Protocol):
    """Judges one choice. Never raises for a failing judge, search or deadline: that is `not_checked` with a reason.

    `asyncio.CancelledError` passes through.
    """

    @property
    def kind(self) -> str:
        """`fact_check` or `code_review`, as it stands in the answer."""
        ...

    async def check(self, case: Case) -> Verdict: ...


@runtime_checkable
class SegmentCheck(Check, Protocol):
    """A check that can judge an answer piece by piece while it is still being written.

    `check(case)` must equal `conclude(case, [await check_segment(case, s) for s in segments(case.answer)])`.
    """

    def segments(self, text: str) -> Sequence[Segment]:
        """Segments of a text, in order, together covering every character that is not white space."""
        ...

    def settled(self, text: str) -> int:
        """Length of the prefix whose segments no further text can change; always a segment border."""
        ...

    async def check_segment(self, case: Case, segment: Segment) -> CheckedFact: ...

    def conclude(self, case: Case, facts: Sequence[CheckedFact]) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """A prompt for a judge: instructions and data apart; `purpose` names it in records (`questions`, `classify`)."""

    purpose: str
    system: str
    user: str
    max_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """A judge's reply: `value` is the parsed object that met the schema, or None when `call.error` says why not."""

    value: Mapping[str, Any] | None
    call: JudgeCall
    reason: Reason | None = None


@runtime_checkable
class Judge(Protocol):
    """A language model that answers in JSON. Never raises but for cancellation: failures come back as a reason."""

    @property
    def name(self) -> str: ...

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """What a classifier sees: the user's query, one fact (with its context) and one passage."""

    query: str
    fact: str
    passage: str
    context: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Classified:
    """Seven probabilities for a pair, and the span of the passage that decided (code points, or (0, 0)).

    `probabilities` is None when the pair could not be judged; `reason` then says why.
    """

    probabilities: Probabilities | None
    quote: tuple[int, int] = (0, 0)
    reason: Reason | None = None


@runtime_checkable
class FactClassifier(Protocol):
    """(query, fact, passage) pairs to seven probabilities each. Pointwise: a pair's verdict ignores the other pairs."""

    @property
    def version(self) -> str: ...

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]: ...
