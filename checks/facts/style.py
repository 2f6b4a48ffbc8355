"""What a fact's own wording says: small talk, opinion, or an answer of the wrong type. Pure.

Three of the seven labels are about the fact, not about the passage. Their signs are few and plain, so they are read off
here and weighed by three small linear models. It does not know passages.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from checks.facts.analysis import Kind
from checks.facts.features import Fact

STYLE: tuple[str, ...] = (
    "bias", "first_person", "second_person", "opinion_word", "should", "question_mark", "greeting", "hedge",
    "has_number", "has_name", "short", "lower_start", "comparative",
    "when_without_time", "count_without_number", "who_without_name", "where_with_number", "number_unasked",
)  # fmt: skip
_PATTERNS: dict[str, re.Pattern[str]] = {
    "first_person": re.compile(r"\b(?:i|we|my|our|me|us|i'm|i'd|i'll|я|мы|мой|наш|мне|нам)\b", re.IGNORECASE),
    "second_person": re.compile(r"\b(?:you|your|yours|please|ты|вы|ваш|вам|пожалуйста)\b", re.IGNORECASE),
    "opinion_word": re.compile(
        r"\b(?:best|worst|beautiful|ugly|wonderful|terrible|amazing|great|good|bad|better|worse|important|essential|"
        r"fair|unfair|moral|immoral|wrong|right|fun|boring|delicious|nice|worth|justified|harmful|beneficial|"
        r"лучший|красивый|ужасный|прекрасный|важно|хорошо|плохо|вкусный)\b",
        re.IGNORECASE,
    ),
    "should": re.compile(r"\b(?:should|ought|must|need to|следует|должен|должны|надо|нужно)\b", re.IGNORECASE),
    "question_mark": re.compile(r"\?\s*$"),
    "greeting": re.compile(
        r"\b(?:hello|hi|hey|thanks|thank you|sorry|welcome|glad|happy to help|let me know|feel free|good luck|"
        r"here is|here are|below|of course|sure|great question|hope this|привет|спасибо|извините|рад|удачи|конечно)\b",
        re.IGNORECASE,
    ),
    "hedge": re.compile(
        r"\b(?:may|might|could|perhaps|maybe|probably|likely|depends|depending|vary|varies|sometimes|generally|"
        r"it is important|it's important|keep in mind|consider|consult|remember|возможно|наверное|зависит)\b",
        re.IGNORECASE,
    ),
    "comparative": re.compile(r"\b(?:more|less|most|least|than)\b", re.IGNORECASE),
}
_WHEN = re.compile(r"\b(?:when|what year|which year|what date|когда|в каком году)\b", re.IGNORECASE)
_COUNT = re.compile(r"\b(?:how many|how much|what percent\w*|сколько|какой процент)\b", re.IGNORECASE)
_WHO = re.compile(r"\b(?:who|whom|whose|кто|кого|кому|чей)\b", re.IGNORECASE)
_WHERE = re.compile(r"\b(?:where|what city|what country|где|куда|в каком городе|в какой стране)\b", re.IGNORECASE)
_ASKED = re.compile(
    r"^\s*(?:Question|Вопрос):\s*(?P<question>.*?)\s*(?:Answer|Ответ):\s*(?P<answer>.*?)\s*$", re.DOTALL
)


def style(text: str, fact: Fact) -> npt.NDArray[np.float32]:
    """Signs of a fact in the order of `STYLE`, each 0 or 1."""
    match = _ASKED.match(text)
    core = match["answer"] if match else text
    question = match["question"] if match else ""
    has_number = any(item.kind is Kind.NUMBER for item in fact.items)
    has_name = any(item.kind is Kind.NAME for item in fact.items)
    values: dict[str, bool] = {name: bool(pattern.search(core)) for name, pattern in _PATTERNS.items()}
    capital = bool(re.search(r"\b[A-ZА-ЯЁ]", core))
    when, count = bool(_WHEN.search(question)), bool(_COUNT.search(question))
    who, where = bool(_WHO.search(question)), bool(_WHERE.search(question))
    values |= {
        "bias": True,
        "has_number": has_number,
        "has_name": has_name,
        "short": len(fact.content) < 4,
        "lower_start": core[:1].islower(),
        "when_without_time": when and not has_number,
        "count_without_number": count and not has_number,
        "who_without_name": who and not capital,
        "where_with_number": where and has_number and not capital,
        "number_unasked": bool(question) and has_number and not capital and (who or where),
    }
    return np.array([values[name] for name in STYLE], dtype=np.float32)
