"""What to search for: the user's last turn, with what it leaves unsaid taken from the turns before. Pure, no model.

Languages are not told apart: length decides first, then small sets of words that lean on what was said before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gateway.wire.types import Turn

MAX_QUERY: Final = 2_000
MAX_QUESTION: Final = 8_000
_TURNS_BACK: Final = 3
_SHORT_WORDS: Final = 3
_LEANING_WORDS: Final = 8
_LEANING_CHARS: Final = 200
_SHORT_IDEOGRAMS: Final = 10
_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*")
_IDEOGRAM: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SENTENCE: Final = re.compile(r"[^.!?…。！？؟\n]+[.!?…。！？؟]*")
_QUESTION_ENDS: Final = ("?", "？", "؟", "՞")


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASSENTS: Final = _words_of(
    """yes yeah yep yup sure ok okay please right correct exactly no nope go ahead do it continue more both neither
    да ага угу конечно давай давайте пожалуйста верно точно нет хорошо продолжай продолжи ещё еще оба обе
    ja jawohl gerne genau bitte nein weiter oui si d'accord bien non continuez sí claro vale vamos sim certo não
    tak nie ano так ні evet hayır نعم لا 是 是的 好 好的 对 不是 はい いいえ 네 아니요"""
)
_LEADS: Final = _words_of(
    """and but or so then also same а и но или тогда также тоже ещё еще und aber oder dann auch et mais alors aussi pero
    entonces también allora anche mas então também"""
)
_PRONOUNS: Final = _words_of(
    """it its they them their this these those he she him ones former latter он она оно они его её ее их ему ей ими ней
    нём нем него неё нее них этот эта это эти этого этой этому этим этих тот той такой такие sie ihn ihm ihr dieser
    dieses damit dafür davon elle ils elles celui celle ceux él ella ellos ellas eso esto ele ela eles elas isso isto"""
)
_PHRASES: Final = frozenset({("what", "about"), ("how", "about"), ("что", "насчёт"), ("что", "насчет")})


def retrieval_query(turns: Sequence[Turn], max_chars: int = MAX_QUERY) -> str:
    """What to search for, at most `max_chars` long; "" when no user has said anything.

    Only turns up to the last user turn count, so that the tool turns after it give the same query.
    """
    said = _resolved(turns)
    if not said:
        return ""
    last = _bounded(said[-1], max_chars)
    room = max_chars - len(last) - 1
    before = "\n".join(said[:-1])
    if not before or room <= 0:
        return last
    # Of what came before, the end is nearest to the question.
    return f"{before[-room:].lstrip()}\n{last}"


def question(turns: Sequence[Turn]) -> str:
    """The text that a check regards as the user's question: follow-ups resolved, bounded only against abuse."""
    return retrieval_query(turns, MAX_QUESTION)


def _resolved(turns: Sequence[Turn]) -> list[str]:
    """The last user turn, preceded by the earlier ones that it needs to be understood, oldest first."""
    last = max((i for i, turn in enumerate(turns) if turn.role == "user" and turn.text.strip()), default=None)
    if last is None:
        return []
    said = [turns[last].text.strip()]
    if _is_assent(said[0]) and (asked := _last_question(turns[:last])):
        said.insert(0, asked)
    earlier = [turn.text.strip() for turn in turns[:last] if turn.role == "user" and turn.text.strip()]
    leaning = _leans(turns[last].text)
    for text in reversed(earlier[-_TURNS_BACK:]):
        if not leaning:
            break
        said.insert(0, text)
        leaning = _leans(text)
    return said


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _is_assent(text: str) -> bool:
    words = _words(text) if len(text) <= _LEANING_CHARS else []
    return 0 < len(words) <= _SHORT_WORDS and all(word in _ASSENTS for word in words)


def _leans(text: str) -> bool:
    """Whether a turn is likely to need the turns before it: it is short, or begins or speaks by reference."""
    if len(text) > _LEANING_CHARS:
        return False
    ideograms = len(_IDEOGRAM.findall(text))
    if ideograms:
        return ideograms <= _SHORT_IDEOGRAMS
    words = _words(text)
    if len(words) <= _SHORT_WORDS:
        return True
    leads = words[0] in _LEADS or tuple(words[:2]) in _PHRASES
    return len(words) <= _LEANING_WORDS and (leads or any(word in _PRONOUNS for word in words))


def _last_question(turns: Sequence[Turn]) -> str:
    """The last sentence of the last assistant turn that asks something."""
    for turn in reversed(turns):
        if turn.role == "assistant" and turn.text.strip():
            sentences = [match[0].strip() for match in _SENTENCE.finditer(turn.text)]
            return next((sentence for sentence in reversed(sentences) if sentence.endswith(_QUESTION_ENDS)), "")
    return ""


def _bounded(text: str, limit: int) -> str:
    """A long turn's beginning and end: a question stands at one of them, what is pasted between."""
    if len(text) <= limit:
        return text
    half = max(1, (limit - 1) // 2)
    return f"{text[:half].rstrip()}\n{text[-half:].lstrip()}"[:limit]
