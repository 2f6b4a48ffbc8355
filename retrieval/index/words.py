"""The words of the lexical leg: stemmers by language, and words of questions that say nothing of their subject. Pure.

Stemming is Snowball's (Porter, 2001). The lists are short on purpose: only words that stand in nearly any question.
Knows nothing of indexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Stemmer:
    """The engine's name of a stemmer, and the script of the words that it changes."""

    name: str
    script: str


STEMMERS: Final = {
    "ar": Stemmer("arabic", "arabic"),
    "da": Stemmer("danish", "latin"),
    "de": Stemmer("german", "latin"),
    "el": Stemmer("greek", "greek"),
    "en": Stemmer("english", "latin"),
    "es": Stemmer("spanish", "latin"),
    "fi": Stemmer("finnish", "latin"),
    "fr": Stemmer("french", "latin"),
    "hu": Stemmer("hungarian", "latin"),
    "it": Stemmer("italian", "latin"),
    "nl": Stemmer("dutch", "latin"),
    "no": Stemmer("norwegian", "latin"),
    "pt": Stemmer("portuguese", "latin"),
    "ro": Stemmer("romanian", "latin"),
    "ru": Stemmer("russian", "cyrillic"),
    "sv": Stemmer("swedish", "latin"),
    "ta": Stemmer("tamil", "tamil"),
    "tr": Stemmer("turkish", "latin"),
}

FUNCTION_WORDS: Final = """
a an the of in on at to for by with from as and or is are was were be been being do does did has have had having
what which who whom whose when where why how that this these those it its there can could would will should
и в во на с со к ко о об по за из от до у для при не что чем чего кто кого кем кому где когда как какой какая какое
какие каким который которая которое почему зачем ли бы это этот эта эти тот та те был была было были быть есть он она
оно они его её их свой
"""
