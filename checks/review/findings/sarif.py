"""SARIF 2.1.0 logs (OASIS standard): results in, suppressions out. The native place of a verdict is `suppressions`.

Knows `artifactLocation` by uri, `uriBaseId` and index, percent-encoding, rules by index and by id, message templates,
several locations (the first one is the issue's), and that suppressed means every suppression is accepted (§3.35).
Columns are kept as given: they count UTF-16 units or code points as `columnKind` says.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from checks.review.findings import fields
from checks.review.findings.found import MOST_ISSUES, Block, Found, Handle, Mark, Quoting, Series
from checks.review.findings.jsontext import Node, Region, line_slot, without_members
from checks.review.types import Issue, Severity

FORMAT: Final = "sarif"
_LEVELS: Final = {
    "error": Severity.HIGH,
    "warning": Severity.MEDIUM,
    "note": Severity.INFO,
    "none": Severity.INFO,
}
_NO_ISSUE: Final = frozenset({"pass", "notApplicable"})
_MOVED: Final = ("startColumn", "endColumn", "charOffset", "charLength", "byteOffset", "byteLength", "snippet")
_PLACEHOLDER: Final = re.compile(r"\{(\d{1,3})\}")
_DEEPEST_BASE: Final = 8


def read(text: str, region: Region) -> Block | None:
    """The results of every run, or None for anything but a SARIF log."""
    runs = region.root.get("runs")
    if runs is None or runs.kind != "array":
        return None
    if not any(run.get("tool") or run.get("results") for run in runs.items):
        return None
    found: list[Found] = []
    for index, run in enumerate(runs.items):
        results = run.get("results")
        if results is None or results.kind != "array":
            continue
        spans = tuple((item.start, item.end) for item in results.items)
        rules = run.at("tool", "driver", "rules")
        named = {rule.text("id"): rule for rule in reversed(rules.items)} if rules is not None else {}
        series = Series(results.start, results.end, spans, results.open, ("runs", str(index), "results"))
        for item in results.items:
            if item.kind == "object" and not item.open and len(found) < MOST_ISSUES:
                found += _result(text, run, item, series, named)
    return Block(format=FORMAT, start=region.start, end=region.end, found=tuple(found), cut=region.root.open)


def _result(text: str, run: Node, item: Node, series: Series, named: dict[str, Node]) -> list[Found]:
    if item.text("kind") in _NO_ISSUE:
        return []
    rule = _rule(run, item, named)
    message = _message(item, rule)
    if not message:
        return []
    rule_id = item.text("ruleId") or _deep_text(item, "rule", "id") or (rule.text("id") if rule else "")
    title = (_deep_text(rule, "shortDescription", "text") if rule else "") or rule_id
    locations = item.get("locations")
    places = [_place(run, node) for node in locations.items] if locations is not None else []
    first = locations.items[0] if locations is not None and locations.items else None
    region = first.at("physicalLocation", "region") if first is not None else None
    path, where = places[0] if places else (None, fields.WHOLE_FILE)
    level = item.text("level") or (_deep_text(rule, "defaultConfiguration", "level") if rule else "") or "warning"
    extra: dict[str, Any] = {"rule": rule_id} if rule_id else {}
    if len(places) > 1:
        extra["locations"] = [(path, lines.start, lines.end) for path, lines in places]
    if _suppressed(item):
        extra["suppressed"] = True
    issue = Issue(
        number=0,
        format=FORMAT,
        path=path,
        start_line=where.start,
        end_line=where.end,
        title=title,
        body=message,
        severity=_LEVELS.get(level),
        category=rule_id or None,
        suggestion=_fix(item),
        start=item.start,
        end=item.end,
        extra=extra,
    )
    slots = line_slot(region.get("startLine"), "{start}") if region else ()
    slots += line_slot(region.get("endLine"), "{end}") if region else ()
    slots += without_members(text, region, _MOVED)
    handle = Handle(span=(item.start, item.end), series=series, marks=_marks(text, item), lines=slots)
    return [Found(issue, handle, (where.note,) if where.note else ())]


def _marks(text: str, item: Node) -> tuple[Mark, ...]:
    entry = '{"kind": "external", "status": "{status}", "justification": "'
    present = item.get("suppressions")
    if present is not None and present.kind == "array":
        at, after = present.start + 1, '"}, ' if present.items else '"}'
        return (Mark(at, at, Quoting.JSON, entry, after, bare=True),)
    nulls = [member for member in item.members if member.key == "suppressions"]
    if nulls:
        return (Mark(nulls[0].node.start, nulls[0].node.end, Quoting.JSON, "[" + entry, '"}]', bare=True),)
    at = item.start + 1
    space = text[at : item.members[0].start] if item.members and not text[at : item.members[0].start].strip() else ""
    return (Mark(at, at, Quoting.JSON, f'{space}"suppressions": [{entry}', '"}],', bare=True),)


def _suppressed(item: Node) -> bool:
    present = item.get("suppressions")
    states = [entry.text("status") or "accepted" for entry in present.items] if present is not None else []
    return bool(states) and all(state == "accepted" for state in states)


def _rule(run: Node, item: Node, named: dict[str, Node]) -> Node | None:
    component = run.at("tool", "driver")
    reference = item.at("rule", "toolComponent", "index")
    extensions = run.at("tool", "extensions")
    if reference is not None and extensions is not None:
        component = _nth(extensions, reference.value)
    rules = component.get("rules") if component is not None else None
    if rules is None:
        return None
    index = item.get("ruleIndex") or item.at("rule", "index")
    if index is not None and (rule := _nth(rules, index.value)) is not None:
        return rule
    wanted = item.text("ruleId") or _deep_text(item, "rule", "id")
    # A hierarchical id (`CA1000/1`) names the rule before its slash (§3.27.5).
    return (named.get(wanted) or named.get(wanted.rsplit("/", 1)[0])) if wanted else None


def _message(item: Node, rule: Node | None) -> str:
    message = item.get("message")
    if message is None:
        return ""
    if message.kind == "string":
        return str(message.value).strip()
    words = message.text("text", "markdown")
    key = message.text("id")
    if not words and key and rule is not None:
        words = _deep_text(rule, "messageStrings", key, "text")
    arguments = message.get("arguments")
    if arguments is None:
        return words
    values = [str(node.value) for node in arguments.items]
    return _PLACEHOLDER.sub(lambda m: values[int(m[1])] if int(m[1]) < len(values) else m[0], words)


def _place(run: Node, location: Node) -> tuple[str | None, fields.Lines]:
    physical = location.get("physicalLocation")
    if physical is None:
        return None, fields.WHOLE_FILE
    region = physical.get("region")
    where = fields.WHOLE_FILE
    if region is not None:
        start, end = region.get("startLine"), region.get("endLine")
        where = fields.lines(start.value if start else None, end.value if end else None)
    return _uri(run, physical.get("artifactLocation"), _DEEPEST_BASE), where


def _uri(run: Node, artifact: Node | None, deeper: int) -> str | None:
    if artifact is None:
        return None
    uri = artifact.text("uri")
    index = artifact.get("index")
    artifacts = run.get("artifacts")
    if not uri and index is not None and artifacts is not None:
        known = _nth(artifacts, index.value)
        return _uri(run, known.get("location"), deeper - 1) if known is not None and deeper else None
    if not uri:
        return None
    path = unquote(uri)
    base = _base(run, artifact.text("uriBaseId"), deeper)
    return path if not base or path.startswith("/") or "://" in path else f"{base.rstrip('/')}/{path}"


def _base(run: Node, name: str, deeper: int) -> str:
    """The part of a base below the root of the repository: an absolute base is that root on the reviewer's machine."""
    node = run.at("originalUriBaseIds", name) if name else None
    if node is None or not deeper:
        return ""
    uri = unquote(node.text("uri"))
    if uri.startswith("/") or "://" in uri:
        return ""
    outer = _base(run, node.text("uriBaseId"), deeper - 1)
    return f"{outer.rstrip('/')}/{uri}" if outer else uri


def _nth(array: Node, index: Any) -> Node | None:
    valid = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(array.items)
    return array.items[index] if valid else None


def _deep_text(node: Node | None, *path: str) -> str:
    owner = node.at(*path[:-1]) if node is not None else None
    return owner.text(path[-1]) if owner is not None else ""


def _fix(item: Node) -> str | None:
    fixes = item.get("fixes")
    for fix in fixes.items if fixes is not None else ():
        for change in changes.items if (changes := fix.get("artifactChanges")) is not None else ():
            for replacement in spots.items if (spots := change.get("replacements")) is not None else ():
                if words := _deep_text(replacement, "insertedContent", "text"):
                    return words
    return None
