"""What a code review needs of an exchange beside what every check needs: several texts, edits, options. Pure.

A review may stand in the content or in the arguments of tool calls, so a choice gives one case per text, and their
verdicts become one again. Knows no repository and no judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from checks.types import Case, CheckedIssue, Reason, Status, Verdict
from gateway.wire import edits, raw
from gateway.wire.types import Answer, ChatRequest, ChoiceAnswer, Turn

_PINS: Final = ("repository", "revision", "base_revision")
_SAYS_LITTLE: Final = frozenset({"judge", "hop", "label", "abstained"})


def review_options(request: ChatRequest, turns: Sequence[Turn]) -> dict[str, Any]:
    """`Case.options` of a code review, for its content."""
    given = {name: value for name in _PINS if (value := getattr(request.options, name)) is not None}
    schema = _schema(request)
    messages = tuple((turn.role, turn.text) for turn in turns if turn.text)
    return {**given, "messages": messages, **({"schema": schema} if schema else {})}


def cases(base: Case, choice: ChoiceAnswer, tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Case]:
    """A case per text of a choice; `base` is that of its content. `tools` are the schemas of tools by name.

    A choice without any text is one case all the same, which is not checked by saying so.
    """
    out: dict[str, Case] = {}
    for part, text in edits.texts(choice).items():
        if part == edits.CONTENT:
            out[part] = base
            continue
        options = {key: value for key, value in base.options.items() if key != "schema"}
        if schema := tools.get(edits.tool_name(choice, part)):
            options["schema"] = schema
        out[part] = replace(base, answer=text, refusal="", has_tool_calls=False, has_media=False, options=options)
    return out or {edits.CONTENT: base}


def tool_schemas(request: ChatRequest) -> dict[str, Mapping[str, Any]]:
    """JSON Schemas of the arguments of the request's tools, by name."""
    out: dict[str, Mapping[str, Any]] = {}
    for tool in _list(request, "tools"):
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(function.get("parameters"), dict):
            out[str(function.get("name"))] = function["parameters"]
    for function in _list(request, "functions"):
        if isinstance(function.get("parameters"), dict):
            out[str(function.get("name"))] = function["parameters"]
    return out


def merged(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdicts on the texts of a choice as one; texts that hold no review do not count beside one that does."""
    if len(verdicts) == 1:
        ((part, only),) = verdicts.items()
        return _of_part(part, only)
    found = {part: v for part, v in verdicts.items() if v.issues or v.reason is not Reason.NO_FACTS}
    marked = [_of_part(part, verdict) for part, verdict in (found or verdicts).items()]
    worst = min(marked, key=lambda verdict: _RANK[verdict.status])
    return replace(
        worst,
        issues=tuple(issue for verdict in marked for issue in verdict.issues),
        detail="; ".join(dict.fromkeys(verdict.detail for verdict in marked if verdict.detail)),
        calls=tuple(call for verdict in marked for call in verdict.calls),
        seconds=_summed(verdict.seconds for verdict in marked),
        filtered=tuple(edit for verdict in marked for edit in verdict.filtered),
        marked=tuple(edit for verdict in marked for edit in verdict.marked),
        details={**worst.details, "parts": list(found)} if found else worst.details,
    )


_RANK: Final = {Status.FAILED: 0, Status.NOT_CHECKED: 1, Status.PASSED: 2}


def fits(case: Case, verdict: Verdict) -> bool:
    """Whether the edits of a verdict can be made in the text it judged."""
    return edits.fits(case.answer, verdict.filtered) and edits.fits(case.answer, verdict.marked)


def rewritten(answer: Answer, verdicts: Sequence[Verdict], *, removes: bool) -> tuple[Answer, list[Verdict]]:
    """The answer with the verdicts written into it, and the verdicts with offsets in it.

    `removes`: what the check drops is left out, and nothing of it stays in the verdicts but that it was; otherwise it
    is marked.
    """
    chosen = {verdict.choice: verdict.filtered if removes else verdict.marked for verdict in verdicts}
    shown = [_shown(verdict, chosen[verdict.choice], removes=removes) for verdict in verdicts]
    return edits.edited(answer, chosen, removes=removes), shown


def rewritten_text(text: str, verdict: Verdict, *, removes: bool) -> str | None:
    """A content that was judged by itself with its verdict written into it; None where that changes nothing."""
    given = [edit for edit in (verdict.filtered if removes else verdict.marked) if edit.part == edits.CONTENT]
    return edits.apply(text, given) if given else None


def _shown(verdict: Verdict, given: Sequence[Any], *, removes: bool) -> Verdict:
    moves = {part: edits.Moves(of_part) for part, of_part in edits.by_part(given).items()}
    issues = []
    for issue in verdict.issues:
        if issue.part in moves:
            start, end = moves[issue.part].span(issue.start, issue.end)
            issue = replace(issue, start=start, end=end)
        if removes and issue.action == "drop":
            issue = _without_words(issue)
        issues.append(issue)
    return replace(verdict, issues=tuple(issues))


def _without_words(issue: CheckedIssue) -> CheckedIssue:
    """A removed issue: that it was, where, and how it was voted on, but nothing that tells it again."""
    return replace(
        issue,
        title="",
        votes=tuple({key: vote[key] for key in vote if key in _SAYS_LITTLE} for vote in issue.votes),
        evidence=tuple({"kind": item.get("kind")} for item in issue.evidence),
    )


def _of_part(part: str, verdict: Verdict) -> Verdict:
    if part == edits.CONTENT:
        return verdict
    return replace(
        verdict,
        issues=tuple(replace(issue, part=part) for issue in verdict.issues),
        filtered=tuple(replace(edit, part=part) for edit in verdict.filtered),
        marked=tuple(replace(edit, part=part) for edit in verdict.marked),
    )


def _summed(seconds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for each in seconds:
        for step, spent in each.items():
            out[step] = out.get(step, 0.0) + spent
    return out


def _schema(request: ChatRequest) -> Mapping[str, Any] | None:
    """The JSON Schema of `response_format`, if the request gives one."""
    value = _decoded(request, "response_format")
    named = value.get("json_schema") if isinstance(value, dict) else None
    schema = named.get("schema") if isinstance(named, dict) else None
    return schema if isinstance(schema, dict) else None


def _list(request: ChatRequest, field: str) -> list[dict[str, Any]]:
    value = _decoded(request, field)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _decoded(request: ChatRequest, field: str) -> Any:
    value = request.fields.get(field)
    try:
        return None if value is None else raw.decode(value)
    except (ValueError, RecursionError):
        return None
