"""Makes training pairs from plain paragraphs: true restatements, small false edits, and facts a passage leaves open.

Labels hold by construction and are now and then wrong (an edit may stay true); seeded, so reproducible. It does not
know the feature model. English edits use the lexicon, Russian ones its small tables.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checks.facts.analysis import Analysed, Item, Kind, Sentence, analyse
from checks.facts.lexicon import Lexicon
from checks.facts.wordlists import EXCLUSIVE_SETS, OPERATOR_GROUPS, OPPOSITES

SUPPORTS, REFUTES, IRRELEVANT, PARTIAL = "supports", "refutes", "irrelevant", "partial"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_AUXILIARY = re.compile(r"\b(is|are|was|were|can|may|must|will|has|have|does|do|should|could)\b(?! not)")
_NEGATION = re.compile(r"\b(is|are|was|were|can|may|must|will|has|have|does|do|should|could)(?: not|n't)\b|\bcannot\b")
_RU_VERB = re.compile(r"\b(не )?(был|была|было|были|является|может|могут|имеет|стал|стала|стоит)\b")
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905 (a word list)


_FILLERS = (
    "actual", "current", "entire", "particular", "usual", "main", "standard", "specific", "given", "said", "typical",
    "officially", "actually", "basically", "simply", "effectively", "originally", "travelling", "existing", "relevant",
)  # fmt: skip
_STRANGERS = (
    "deploy", "undertake", "handle", "manage", "arrange", "execute", "leverage", "utilise", "facilitate", "ensure",
    "feature", "serve", "enable", "perform", "realise", "involve", "represent", "constitute", "process", "element",
    "aspect", "item", "matter", "entity", "approach", "setting", "context",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """A made pair: the passage's stance towards the fact."""

    fact: str
    passage: str
    stance: str
    kind: str


class Editor:
    """Edits sentences of paragraphs; `random` decides everything, so one seed gives one result."""

    def __init__(self, lexicon: Lexicon, rng: random.Random) -> None:
        self._lexicon = lexicon
        self._random = rng
        self._swaps = _swap_table()

    def make(self, passage: str, elsewhere: Sequence[str]) -> list[Made]:
        """Pairs from one sentence of the passage; `elsewhere` are paragraphs of other subjects."""
        analysed = analyse(passage, self._lexicon)
        usable = [s for s in analysed.sentences if 4 <= len(s.items) <= 40 and not s.heading]
        if not usable:
            return []
        sentence = self._random.choice(usable)
        text = passage[sentence.start : sentence.end]
        rest = (passage[: sentence.start] + passage[sentence.end :]).strip()
        true_text = self.restate(text)
        pairs = [Made(text, passage, SUPPORTS, "kept"), Made(true_text, passage, SUPPORTS, "restated")]
        for _ in range(2):
            edit = self.falsify(sentence, analysed)
            if edit:
                fact, kind = edit
                if self._random.random() < 0.5:
                    fact = self.restate(fact)
                pairs.append(Made(fact, passage, REFUTES, kind))
                if rest and self._random.random() < 0.3:
                    pairs.append(Made(fact, rest, IRRELEVANT, "gone"))
        if self._random.random() < 0.25 and (odd := self._odd_word(sentence, analysed)):
            pairs.append(Made(odd, passage, IRRELEVANT, "odd"))
        if rest:
            pairs.append(Made(self._random.choice((text, true_text)), rest, IRRELEVANT, "gone"))
        if elsewhere:
            other = self._random.choice(elsewhere)
            pairs.append(Made(true_text, other, IRRELEVANT, "other"))
            if spliced := self.splice(text, other):
                pairs.append(Made(spliced, passage, IRRELEVANT, "spliced"))
            if joined := self.join(text, other):
                pairs.append(Made(joined, passage, PARTIAL, "joined"))
        return pairs

    # true restatements

    def restate(self, text: str) -> str:
        """The same statement in other words: clause order, number forms, related words, dropped asides."""
        steps: list[Callable[[str], str]] = [
            self._reorder, self._number_form, self._related_word, self._drop_aside, self._related_word, self._lead_in,
            self._add_word, self._add_word, self._other_word,
        ]  # fmt: skip
        for step in self._random.sample(steps, k=self._random.randint(1, 3)):
            text = step(text)
        return text

    def _reorder(self, text: str) -> str:
        head, comma, tail = text.rstrip(".").partition(", ")
        if (
            comma
            and 2 <= len(head.split()) <= 8
            and re.match(r"(?:In|On|At|After|Before|During|By|В|На|После)\b", head)
        ):
            return f"{tail[:1].upper()}{tail[1:]} {head[:1].lower()}{head[1:]}."
        return text

    def _number_form(self, text: str) -> str:
        def change(match: re.Match[str]) -> str:
            written = match.group()
            if "." in written or text[max(0, match.start() - 1) : match.start()] in tuple("€$£-/:"):
                return written
            digits = written.replace(",", "")
            if len(digits) <= 2 and int(digits) < len(_SMALL) and text.isascii():
                return _SMALL[int(digits)]
            if len(digits) >= 5:
                return f"{int(digits):,}" if "," not in written else digits
            return written

        text = _NUMBER.sub(change, text)
        if self._random.random() < 0.5:
            text = re.sub(r"(\d) ?%", r"\1 percent", text)
        return text

    def _related_word(self, text: str) -> str:
        words = [(m.start(), m.group()) for m in re.finditer(r"\b[a-z]{4,}\b", text)]
        self._random.shuffle(words)
        for at, word in words[:6]:
            related = sorted(self._lexicon.related(self._lexicon.words.stem(word)))
            if related and self._random.random() < 0.7:
                return text[:at] + self._random.choice(related) + text[at + len(word) :]
        return text

    def _add_word(self, text: str) -> str:
        """A word that adds nothing, where an adjective or adverb may stand."""
        places = [m.end() for m in re.finditer(r"\b(?:the|a|an|is|are|was|were|and|of|in)\b", text)]
        if not places:
            return text
        at = self._random.choice(places)
        return f"{text[:at]} {self._random.choice(_FILLERS)}{text[at:]}"

    def _other_word(self, text: str) -> str:
        """One lower-case word in other words that no lexicon has; readers accept such paraphrases."""
        words = [m for m in re.finditer(r"\b[a-z]{5,}\b", text) if m.group() not in self._swaps]
        if not words:
            return text
        match = self._random.choice(words)
        return text[: match.start()] + self._random.choice(_STRANGERS) + text[match.end() :]

    def _drop_aside(self, text: str) -> str:
        shorter = re.sub(r"\s*\([^)]*\)", "", text)
        if shorter != text:
            return shorter
        parts = text.rstrip(".").split(", ")
        if len(parts) >= 2 and len(parts[0].split()) >= 6:
            return f"{parts[0]}."
        return text

    def _lead_in(self, text: str) -> str:
        if text.isascii() and text[:2].istitle() and not text.startswith(("I ", "“", '"')):
            return self._random.choice(("According to the document, ", "Note that ", "Yes, ", "In fact, ")) + text
        return text

    # false edits

    def falsify(self, sentence: Sentence, passage: Analysed) -> tuple[str, str] | None:
        """The sentence with one thing changed so that the passage speaks against it, and the kind of the edit."""
        text = passage.text[sentence.start : sentence.end]
        makers = [
            self._number,
            self._number,
            self._swap,
            self._swap,
            self._negate,
            self._name,
            self._sibling,
            self._unit,
        ]
        self._random.shuffle(makers)
        for maker in makers:
            changed = maker(sentence, passage)
            if changed and changed.strip() != text.strip():
                return changed, maker.__name__.strip("_")
        return None

    def _put(self, sentence: Sentence, passage: Analysed, item: Item, new: str) -> str:
        text = passage.text
        return text[sentence.start : item.start] + new + text[item.end : sentence.end]

    def _number(self, sentence: Sentence, passage: Analysed) -> str | None:
        items = [i for i in sentence.items if i.quantity is not None and _NUMBER.search(passage.text, i.start, i.end)]
        if not items:
            return None
        item = self._random.choice(items)
        match = self._random.choice(list(_NUMBER.finditer(passage.text, item.start, item.end)))
        digits = match.group()
        at = self._random.randrange(len(digits))
        while not digits[at].isdigit():
            at = self._random.randrange(len(digits))
        new = digits[:at] + self._random.choice([d for d in "123456789" if d != digits[at]]) + digits[at + 1 :]
        if self._random.random() < 0.3 and digits.isdigit() and len(digits) < 4:
            new = str(int(digits) * 2 + 1)
        text = passage.text
        return text[sentence.start : match.start()] + new + text[match.end() : sentence.end]

    def _swap(self, sentence: Sentence, passage: Analysed) -> str | None:
        text = passage.text[sentence.start : sentence.end]
        places = [(m, self._swaps[m.group()]) for m in re.finditer(r"[^\W\d_]+", text) if m.group() in self._swaps]
        if not places:
            return None
        match, options = self._random.choice(places)
        return text[: match.start()] + self._random.choice(options) + text[match.end() :]

    def _negate(self, sentence: Sentence, passage: Analysed) -> str | None:
        text = passage.text[sentence.start : sentence.end]
        if match := _NEGATION.search(text):
            kept = "can" if match.group() == "cannot" else match.group(1)
            return text[: match.start()] + kept + text[match.end() :]
        if passage.russian:
            match = _RU_VERB.search(text)
            if match is None:
                return None
            new = match.group(2) if match.group(1) else f"не {match.group(2)}"
            return text[: match.start()] + new + text[match.end() :]
        match = _AUXILIARY.search(text)
        return text[: match.end()] + " not" + text[match.end() :] if match else None

    def _name(self, sentence: Sentence, passage: Analysed) -> str | None:
        names = [i for i in sentence.items if i.kind is Kind.NAME and i.end - i.start > 3]
        inside = {i.key for i in sentence.items}
        others = [
            passage.text[i.start : i.end]
            for s in passage.sentences
            for i in s.items
            if i.kind is Kind.NAME and i.key not in inside and i.end - i.start > 3
        ]
        if not names or not others:
            return None
        return self._put(sentence, passage, self._random.choice(names), self._random.choice(others))

    def _sibling(self, sentence: Sentence, passage: Analysed) -> str | None:
        words = [i for i in sentence.items if i.kind is Kind.WORD]
        inside = {i.key for i in sentence.items}
        others = [
            i
            for s in passage.sentences
            for i in s.items
            if i.kind is Kind.WORD and i.key not in inside and i.end - i.start > 3
        ]
        self._random.shuffle(words)
        for word in words[:8]:
            fits = [o for o in others if self._lexicon.siblings(word.key, o.key)]
            if fits:
                other = self._random.choice(fits)
                return self._put(sentence, passage, word, passage.text[other.start : other.end])
        return None

    def _odd_word(self, sentence: Sentence, passage: Analysed) -> str | None:
        """One word replaced by an unrelated one of the passage: the passage does not say that."""
        words = [i for i in sentence.items if i.kind is Kind.WORD]
        inside = {i.key for i in sentence.items}
        others = [i for s in passage.sentences for i in s.items if i.kind is Kind.WORD and i.key not in inside]
        if not words or not others:
            return None
        other = self._random.choice(others)
        return self._put(sentence, passage, self._random.choice(words), passage.text[other.start : other.end])

    def _unit(self, sentence: Sentence, passage: Analysed) -> str | None:
        text = passage.text[sentence.start : sentence.end]
        swaps = {
            "kilometres": "metres", "metres": "kilometres", "miles": "feet", "feet": "miles", "km": "m",
            "hours": "minutes", "minutes": "hours", "days": "weeks", "weeks": "days", "months": "years",
            "years": "months", "kg": "g", "grams": "kilograms", "million": "billion", "billion": "million",
            "thousand": "million", "percent": "per thousand", "%": "‰", "dollars": "euros", "euros": "dollars",
            "тысяч": "миллионов", "миллионов": "тысяч", "лет": "месяцев", "дней": "недель", "часов": "минут",
        }  # fmt: skip
        places = [m for m in re.finditer(r"[^\W\d_]+", text) if m.group() in swaps]
        if not places:
            return None
        match = self._random.choice(places)
        return text[: match.start()] + swaps[match.group()] + text[match.end() :]

    # facts the passage leaves open

    def splice(self, text: str, other: str) -> str | None:
        """Beginning of one sentence with the end of another: on the subject, but not in the passage."""
        words = text.rstrip(".").split()
        foreign = self._random.choice([s for s in re.split(r"(?<=[.!?])\s+", other) if s] or [other]).split()
        if len(words) < 6 or len(foreign) < 6:
            return None
        keep = self._random.randint(2, max(3, len(words) // 2))
        return " ".join(words[:keep] + foreign[len(foreign) // 2 :])

    def join(self, text: str, other: str) -> str | None:
        """A true sentence with a clause that the passage does not have."""
        words = text.rstrip(".").split()
        foreign = re.split(r"(?<=[.!?])\s+", other)[0].rstrip(".").split()
        if not 5 <= len(words) <= 30 or len(foreign) < 6:
            return None
        return " ".join([*words, "and" if text.isascii() else "и", *foreign[-min(8, len(foreign) // 2 + 2) :]]) + "."


def _swap_table() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for row in OPPOSITES:
        one, _, others = row.partition(":")
        for other in others.split(","):
            table.setdefault(one, []).append(other)
            table.setdefault(other, []).append(one)
    for members in EXCLUSIVE_SETS:
        for word in members:
            table.setdefault(word, []).extend(sorted(members - {word})[:4])
            table.setdefault(word.capitalize(), []).extend(w.capitalize() for w in sorted(members - {word})[:4])
    for group in ("order", "share", "mode", "superlative", "amount"):
        for value, forms in OPERATOR_GROUPS[group].items():
            for form in sorted(forms):
                russian = "а" <= form[0] <= "я"
                rivals = sorted(
                    w
                    for v, ws in OPERATOR_GROUPS[group].items()
                    for w in ws
                    if v != value and ("а" <= w[0] <= "я") == russian
                )
                table.setdefault(form, []).extend(rivals[:6])
    for word in ("on", "up", "under", "over", "do", "may"):
        table.pop(word, None)
    return {word: sorted(set(options)) for word, options in table.items()}
