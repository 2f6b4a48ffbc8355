"""Search questions for a fact: what to look up to confirm or refute it. Knows nothing of search or verdicts.

A fact out of an answer is often not understandable alone ("It was founded in 1998"), so every question carries what it
refers to: the query, the sentence before, a list's lead-in, a table's header. Numbers are asked for in the forms
documents write them (4523000 and 4,523,000).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from checks.facts.plain import plain
from checks.facts.segment import segments
from checks.judge.prompts import QUESTIONS_VERSION, questions_prompt, questions_schema
from checks.types import Judge, JudgeCall

_QUERY = 240
_CONTEXT = 200
_LOOK_BACK = 600
_MOST_VARIANTS = 3

_PRONOUN = re.compile(
    r"(?:(?:and|but|so|also|however|moreover|then|later|in addition|а|и|но|также|однако|затем|кроме того)[ ,]+)?"
    r"(?:it|its|he|him|his|she|her|hers|they|them|their|this|that|these|those|both|such|the (?:former|latter|same)|"
    r"он|она|оно|они|его|её|ее|их|ему|ей|им|это|этот|эта|эти|тот|та|те|данн\w+|там|оба|такой|такая|такие|"
    r"er|sie|es|dies\w*|il|elle|ils|elles|ce|cette|él|ella|ellos|esto)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.,])\d{1,3}(?:([,.'’\u00a0\u202f ])\d{3})(?:\1\d{3})*(?![\w])|(?<![\w.,])\d{5,15}(?![\w])"
)


@dataclass(frozen=True, slots=True)
class FactInAnswer:
    """A fact as plain words, with what it may refer to. `before` are the sentences that lead to it, or ""."""

    query: str
    fact: str
    context: str = ""
    before: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions for a fact, the most useful first, and the judge's calls that made them."""

    questions: tuple[str, ...]
    calls: tuple[JudgeCall, ...] = ()


@runtime_checkable
class Questions(Protocol):
    """Makes search questions. Never raises for a failing judge: it falls back and records the call."""

    @property
    def version(self) -> str: ...

    async def ask(self, fact: FactInAnswer) -> Asked: ...


class TemplateQuestions:
    """Questions from the words of the fact, its context and the query; at most `per_fact`, no model involved."""

    def __init__(self, *, per_fact: int = 2) -> None:
        self._per_fact = max(1, per_fact)

    @property
    def version(self) -> str:
        return f"template/1/{self._per_fact}"

    async def ask(self, fact: FactInAnswer) -> Asked:
        return Asked(template_questions(fact, self._per_fact))


class JudgeQuestions:
    """Questions from a judge that sees query, fact and answer; templates when the judge fails."""

    def __init__(self, judge: Judge, *, per_fact: int = 2) -> None:
        self._judge = judge
        self._per_fact = max(1, per_fact)

    @property
    def version(self) -> str:
        return f"judged:{self._judge.name}/{QUESTIONS_VERSION}/{self._per_fact}"

    async def ask(self, fact: FactInAnswer) -> Asked:
        stated = f"{fact.context}: {fact.fact}" if fact.context else fact.fact
        prompt = questions_prompt(fact.query, stated, fact.answer, self._per_fact)
        reply = await self._judge.judge(prompt, questions_schema(self._per_fact))
        asked = distinct(reply.value["questions"], self._per_fact) if reply.value else ()
        return Asked(asked or template_questions(fact, self._per_fact), (reply.call,))


def template_questions(fact: FactInAnswer, most: int) -> tuple[str, ...]:
    """At most `most` questions: the fact with what it refers to, then the fact beside the query."""
    stated = f"{fact.context[:_CONTEXT]}: {fact.fact}" if fact.context else fact.fact
    with_query = f"{fact.query.strip()[:_QUERY]} {stated}"
    if not refers_back(fact.fact):
        return distinct([stated + number_variants(fact.fact), with_query], most)
    resolved = [f"{fact.before} {stated}" + number_variants(fact.fact)] if fact.before else []
    return distinct([*resolved, with_query], most)


def refers_back(fact: str) -> bool:
    """Whether a fact opens with a word that stands for something named earlier."""
    return _PRONOUN.match(fact) is not None


def before(answer: str, start: int) -> str:
    """The sentences before `answer[start]` that a fact there may refer to, back to one that names its own subject."""
    found: list[str] = []
    for segment in reversed(segments(answer[max(0, start - _LOOK_BACK) : start])):
        words = plain(segment.text)
        if not segment.checkable or not words:
            continue
        found.insert(0, words)
        if not refers_back(words) or len(found) == 3:
            break
    return " ".join(found)[-_CONTEXT * 2 :]


def distinct(questions: Iterable[str], most: int) -> tuple[str, ...]:
    """The first `most` different questions; case, spaces and a final mark make no difference."""
    found: dict[str, str] = {}
    for question in questions:
        words = " ".join(question.split())
        key = words.casefold().rstrip(" ?.!")
        if key and key not in found:
            found[key] = words
    return tuple(found.values())[:most]


def number_variants(text: str) -> str:
    """Other spellings of the long numbers in `text`, as words to add to a question ("" when there are none)."""
    variants: list[str] = []
    for match in _NUMBER.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        variants += [spelling for spelling in (digits, f"{int(digits):,}") if spelling != match[0]]
    return "".join(f" {variant}" for variant in _first(variants, _MOST_VARIANTS))


def _first(items: Sequence[str], most: int) -> list[str]:
    return list(dict.fromkeys(items))[:most]
