"""Where sentences end inside one line of prose. Pure; knows nothing of lists, tables, code blocks or checking.

A full stop ends a sentence or belongs to an abbreviation, an initial, a number; this module decides from bounded
context on both sides (the words before the stop, the first word after it), so that the cost is linear and a decision
made on a prefix of a growing text never changes. Quoted or bracketed spans of up to `SPAN` characters are not split.
"""

from __future__ import annotations

import re

SPAN = 240
"""Longest quotation or parenthesis, in characters, that is kept in one piece."""

_LEFT = 32
_WORD = 20
_MARK_AHEAD = 60

_TOKEN = re.compile(
    r"(?P<dot>[.!?…‼⁇⁈⁉]+)|(?P<stop>[。！？｡।॥؟۔։።፧፨။។៕།༎]+)|(?P<ticks>`+)|(?P<open>[(\[{\"“„«‹「『（【《〈〔])"
    # Thai, Lao and Khmer have no full stop: a space behind a long run of letters parts clauses.
    r"|(?P<gap>[ ](?<=[\u0e00-\u0eff\u1780-\u17ff]{25}[ ])(?=\S))"
)
_CLOSER = {
    "(": ")", "[": "]", "{": "}", '"': '"', "“": "”", "„": "“”", "«": "»", "‹": "›",
    "「": "」", "『": "』", "（": "）", "【": "】", "《": "》", "〈": "〉", "〔": "〕",
}  # fmt: skip
_OPENING = "([{\"'“„«‹「『（【《〈〔*_~`¿¡"

# [1], [1, 2], [^1], 【1†source】, superscripts
_CITATION = r"(?:\[\^?\d{1,3}(?:[,;–-][ ]?\d{1,3}){0,9}\]|【[\w†:.-]{1,40}】|[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})"
CITATION = re.compile(_CITATION)
_CLOSING = r"[\"'”“’»›)\]}」』）】》〉〕*_~`]"
_AFTER = re.compile(rf"{_CLOSING}*(?:[ \t]?{_CITATION})*{_CLOSING}*")
_SPACE = re.compile(r"\s*")
_NEXT = re.compile(rf"([{re.escape(_OPENING)}]*)(\w[\w'’-]{{0,{_WORD - 1}}})?")
_INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.-?)*[^\W\d_]{1,2}\Z")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")

_GOES_ON = frozenset(",;:)]}»”›…-–—。、，；：")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Always followed by a name, a number or the rest of the sentence.
_NEVER_LAST = _words(
    "dr mr mrs ms mx prof st gen col lt sgt rev hon pres gov sen rep capt cmdr messrs mme mlle hr fr sra dña fig figs "
    "eq eqs vs cf e.g i.e eg ie approx ca viz resp incl excl esp z.b d.h u.a bzw ggf vgl т.е т.к т.н напр ср табл гл "
    "ул просп пр-т пер наб пл проф акад доц св тов гр прибл в.т.ч дж илл разд прим ред сост корп"
)
# Followed by a number when it is an abbreviation, an ordinary word or a unit otherwise.
_BEFORE_NUMBER = _words("no nos nr p pp vol vols ch sec art n pt abs zit ст п пп № с д кв стр ч т кн см рис")
# Close an enumeration or a time of day: a capital after them opens a sentence.
_MAY_CLOSE = _words("etc usw ff т.д т.п др пр a.m p.m")
# May stand before a name as well as at the end: only a word that opens sentences decides.
_AMBIGUOUS = _words(
    "al inc ltd co corp jr sr ph.d b.c a.d b.c.e c.e u.s u.k u.n u.s.a d.c н.э г гг в вв тыс млн млрд трлн руб коп "
    "долл мин сек обл р-н о-в оз с д м п ч л х им см рис стр jan feb mar apr jun jul aug sep sept oct nov dec"
)
_LETTER_NOUNS = _words(
    "vitamin vitamins plan option class grade group type part section appendix letter hepatitis category version "
    "figure table point step team block zone phase model series column row schedule exhibit annex витамин витамина "
    "группа группы класс класса буква букву план вариант тип гепатит раздел часть пункт приложение категория"
)
_OPENERS = _words(
    "a an the it he she they we you i this that these those there in on at by for from with as and but or so if when "
    "while after before since because although however moreover furthermore also then thus therefore its his her "
    "their our your my who what where why how yes not some many most all both each every one to of он она оно они это "
    "этот эта эти тот та те во на по со ко об от до из за при для без над под но или если когда пока после однако "
    "также кроме его её ее их мы вы ты там здесь тогда затем поэтому так как что кто где почему не все всё каждый "
    "каждая один одна в и а я у к с о der die das ein eine er sie es wir im am auf mit aus bei und oder aber wenn le "
    "la les un une il elle ils elles ce cette dans et mais el los las una en y pero"
)
_AFTER_ORDINAL = _words(
    "januar februar märz april mai juni juli august september oktober november dezember jahrhundert"
)


def sentence_ends(
    text: str, start: int, end: int, *, complete: bool, code_until: int = 0
) -> tuple[list[int], list[tuple[int, int]], int]:
    """Ends of the sentences of `text[start:end]`, one line of prose; `complete` tells that no text can follow it.

    `code_until` is the end of code that opens the line, kept whole whatever its length.

    Returns the ends (exclusive, behind closing quotes and citation marks; the line's own end only when complete), the
    quoted or bracketed spans that must stay whole, and the offset up to which this result can no longer change.
    """
    ends: list[int] = []
    spans: list[tuple[int, int]] = [(start, code_until)] if code_until > start else []
    kept = max(start, code_until)
    sure = end
    for token in _TOKEN.finditer(text, start, end):
        at = token.start()
        if ends and at < ends[-1]:
            continue
        if token.lastgroup in ("open", "ticks"):
            if at < kept or (token[0] == '"' and not _opens(text, start, at)):
                continue
            close = _closing(text, token, end)
            if close > 0:
                kept = close
                spans.append((at, close))
            elif not complete and at + SPAN > end:
                sure = at
                break
            continue
        verdict = _ends_here(text, token, end, complete, kept)
        if verdict is None:
            sure = at
            break
        if verdict > 0:
            ends.append(verdict)
    if complete and (not ends or ends[-1] < end):
        ends.append(end)
    return ends, spans, sure


def _opens(text: str, start: int, at: int) -> bool:
    """Whether a straight quote opens a quotation (it has a space or an opening mark before it)."""
    return at == start or text[at - 1].isspace() or text[at - 1] in _OPENING


def _closing(text: str, token: re.Match[str], end: int) -> int:
    """Offset behind the mark that closes `token`, 0 when there is none within `SPAN`."""
    limit = min(token.start() + SPAN, end)
    if token.lastgroup == "ticks":
        found = text.find(token[0], token.end(), limit)
        return found + len(token[0]) if found > 0 else 0
    closers = _CLOSER[token[0]]
    found = min((at for mark in closers if (at := text.find(mark, token.end(), limit)) >= 0), default=-1)
    return found + 1


def _ends_here(text: str, token: re.Match[str], end: int, complete: bool, kept: int) -> int | None:
    """Offset behind the sentence that `token` closes, 0 when it closes none, None when later text decides."""
    if token.lastgroup == "gap":
        following = text[token.end()]
        return 0 if token.start() < kept or following in _GOES_ON or following in "[【" else token.start()
    after = _AFTER.match(text, token.end(), end)
    close = after.end() if after else token.end()
    if close < kept:
        return 0
    space = _SPACE.match(text, close, end)
    then = space.end() if space else close
    if then >= end:
        return end if complete else None
    if text[then] in _GOES_ON:
        return 0
    if text[then] in "[【" and not complete and end - then < _MARK_AHEAD:
        # It may turn out to be a citation mark, which belongs to the sentence before it.
        return None
    word = _NEXT.match(text, then, end)
    if word is None or (word.end() >= end and not complete and len(word[2] or "") < _WORD):
        return None
    spaced = then > close
    if token.lastgroup == "stop":
        return close
    if not spaced:
        return close if token[0][-1] in "!?…" and _HAN_OR_KANA.match(text, then) else 0
    return close if _latin_end(text, token, word, end) else 0


def _latin_end(text: str, token: re.Match[str], word: re.Match[str], end: int) -> bool:
    following = word[2] or ""
    if following[:1].islower() and following == following.lower():
        return False
    if token[0] != ".":
        return True
    opener = following.casefold()
    # A single letter with a stop of its own is the next initial, not the article "A".
    is_initial = len(following) == 1 and text[word.end() : word.end() + 1] == "." and word.end() < end
    return _stop_ends(text, token.start(), opener, following[:1].isdigit(), not is_initial and opener in _OPENERS)


def _stop_ends(text: str, at: int, following: str, number_follows: bool, opener_follows: bool) -> bool:
    """Whether the single full stop at `at` ends a sentence, judged by the words around it."""
    left = text[max(0, at - _LEFT) : at]
    if not left or left[-1].isspace():
        return True
    words = left.rsplit(None, 2)
    before, raw = words[-2].casefold() if len(words) > 1 else "", words[-1].lstrip(_OPENING)
    token = raw.casefold()
    if not token or not any(map(str.isalnum, token)):
        return True
    if token.isdecimal():
        return not _enumerates(left, len(left) - len(words[-1])) and following not in _AFTER_ORDINAL
    pair = f"{before.lstrip(_OPENING)}{token}" if before.endswith(".") else ""
    if pair in _NEVER_LAST or token in _NEVER_LAST:
        return False
    if pair in _MAY_CLOSE or token in _MAY_CLOSE:
        return True
    if token in _BEFORE_NUMBER and number_follows:
        return False
    if pair in _AMBIGUOUS or token in _AMBIGUOUS:
        return opener_follows
    if _INITIALS.match(raw) and raw[:1].isupper() and (len(raw) == 1 or "." in raw):
        return opener_follows or before in _LETTER_NOUNS
    return True


def _enumerates(left: str, at: int) -> bool:
    """Whether the number at `left[at]` stands where a sentence begins, as in "1. First"."""
    head = left[:at].rstrip(" \t")
    return (not head and len(left) < _LEFT) or head[-1:] in ("\n", "\r", ":")
