"""The feature model: features of a pair to seven calibrated probabilities. Pure once read.

Four questions in a row: does the passage bear the fact out; if not, half of it; if not, does it speak against it; and
what is left open. The three labels about wording only divide what is left: they never take weight from a passage that
speaks for the fact. It does not know how features are made nor how many passages there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from checks.errors import ModelFileError
from checks.facts.features import FEATURES
from checks.facts.style import STYLE
from checks.facts.trees import Ensemble

RULES = 3
"""Goes up with every change below that moves a probability: records name it beside the model file's own hash."""
_AT = {name: at for at, name in enumerate(FEATURES)}
_STYLE_AT = {name: at for at, name in enumerate(STYLE)}
# A passage may refute only what it is about: at least this share of the fact's words in one sentence, its first name
# somewhere in the passage or its title. Below, the refuting weight shrinks to this factor.
_ON_TOPIC_COVER = 0.55
_OFF_TOPIC_FACTOR = 0.02
# Whatever the trees say, a fact is not borne out when the passage has nowhere two or more and this share of its words,
# or one of its numbers, when its number belongs to something else in the sentence, or when it denies what the passage
# does not speak of.
_MANY_UNKNOWN = 0.34
_NOT_BORNE_OUT = 0.2
# It is doubtful when one word in three is nowhere, or one that stands in the place of another; when a number stands in
# another place of the passage; or when one side denies what the other states.
_SOME_UNKNOWN = 0.3
_DOUBTFUL = 0.45
_DECIDED = 0.5
# The trees are trained against edits, which share nearly every word with what they change, and so hardly tell a passage
# that shares half of a fact from one that shares all of it. Coverage of the fact by its window and by the passage
# orders what the trees decide alike: log-odds lose this much for a fact without any word in common. It never moves a
# pair over the line between borne out and not, nor over the caps above.
_COVERAGE = 6.0
_PER_MISSING_NUMBER = 0.85
_SLOPE, _BELOW = 0.5, 2.0
# What the cross-encoder's log-odds weigh in that order, and how far they count.
_ENTAILED, _MOST_ENTAILED = 1.0, 4.0
# Half a truth needs two parts: facts with fewer words than this are hardly ever one.
_TWO_PARTS = 10
# A passage that refutes has to say something else; mere difference in wording is no refutation.
_CLASHES = [
    _AT[name]
    for name in (
        "numbers_clash", "units_clash", "misbound", "names_replaced", "swapped", "negation_fact_only",
        "negation_window_only", "opposites", "exclusive", "siblings", "operators_clash",
    )
]  # fmt: skip
_DOUBTS = [_AT[name] for name in ("negation_fact_only", "negation_window_only", "numbers_apart")]
_STEPS = ("supports", "half", "refutes")
_WORDINGS = ("needs_no_verification", "opinions_differ", "absurd")


@dataclass(frozen=True, slots=True)
class FeatureModel:
    """Three tree ensembles and three linear models over wording. `version` names the file they came from."""

    supports: Ensemble
    half: Ensemble
    refutes: Ensemble
    wording: npt.NDArray[np.float32]
    version: str

    @classmethod
    def read(cls, directory: Path) -> FeatureModel:
        """Read `model.npz`; raises `ModelFileError` when it is missing, broken or made for other features."""
        path = directory / "model.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            about = json.loads(str(arrays["about"]))
            supports, half, refutes = (Ensemble.stored(arrays, name) for name in _STEPS)
            wording = arrays["wording"].astype(np.float32)
        except (OSError, KeyError, ValueError, BadZipFile) as error:
            raise ModelFileError(
                f"cannot read the fact model {path}: {error}", hint="reinstall the package or run `make classifier`"
            ) from error
        if tuple(about["features"]) != FEATURES or tuple(about["style"]) != STYLE:
            raise ModelFileError(
                f"the fact model {path} was made for other features", hint="run `make classifier` to rebuild it"
            )
        return cls(supports, half, refutes, wording, version=str(about["version"]))

    def write(self, directory: Path) -> None:
        """Write `model.npz`; equal models give equal bytes."""
        arrays: dict[str, npt.NDArray[np.generic]] = {}
        for name in _STEPS:
            arrays |= getattr(self, name).arrays(name)
        about = {"features": FEATURES, "style": STYLE, "version": self.version}
        arrays |= {"about": np.array(json.dumps(about)), "wording": self.wording}
        np.savez_compressed(directory / "model.npz", allow_pickle=False, **arrays)

    def probabilities(
        self,
        rows: npt.NDArray[np.float32],
        styles: npt.NDArray[np.float32],
        entailed: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Seven probabilities a row: features `(n, len(FEATURES))`, styles `(n, len(STYLE))` to `(n, 7)`.

        `entailed`, shape `(n,)`, is a second reader's log-odds of support; 0 where it has not read.
        """
        cover = rows[:, _AT["cover_said"]]
        supports = self.supports.probability(rows).astype(np.float64)
        unknown, strong = rows[:, _AT["unknown"]], rows[:, _AT["strong"]]
        swapped_in = (unknown >= 1) & (rows[:, _AT["replaced"]] > 0)
        few_known = (unknown >= 1) & (unknown >= _SOME_UNKNOWN * strong)
        doubtful = swapped_in | few_known | (rows[:, _DOUBTS].sum(axis=1) > 0)
        supports = np.where(doubtful, np.minimum(supports, _DOUBTFUL), supports)
        not_borne_out = ((unknown >= 2) & (unknown >= _MANY_UNKNOWN * strong)) | (
            rows[:, _AT["misbound"]] + rows[:, _AT["negation_open"]] + rows[:, _AT["numbers_nowhere"]] > 0
        )
        supports = np.where(not_borne_out, np.minimum(supports, _NOT_BORNE_OUT), supports)
        cap = np.where(not_borne_out, _NOT_BORNE_OUT, np.where(doubtful, _DOUBTFUL, _DECIDED))
        supports = _ordered(supports, rows, cap, np.zeros(len(rows)) if entailed is None else entailed)
        half = (1 - supports) * self.half.probability(rows) * np.minimum(1, strong / _TWO_PARTS)
        refutes = self.refutes.probability(rows).astype(np.float64)
        off_topic = (cover < _ON_TOPIC_COVER) | (rows[:, _AT["subject_missing"]] > 0) | (rows[:, _AT["items"]] == 0)
        refutes = np.where(off_topic, refutes * _OFF_TOPIC_FACTOR, refutes)
        against = rows[:, _CLASHES].sum(axis=1) > 0
        refutes = np.where(against, refutes, refutes * _OFF_TOPIC_FACTOR)
        # Another number beside an uncovered word, or none where the fact has one, may well be of something else.
        other_number = rows[:, _AT["numbers_clash"]] > 0
        elsewhere = np.where(other_number, rows[:, _AT["uncovered"]] > 0, rows[:, _AT["numbers_missing"]] > 0)
        refutes = np.where(elsewhere, np.minimum(refutes, _DOUBTFUL), refutes)
        rest = 1 - supports - half
        refuted, open_ = rest * refutes, rest * (1 - refutes)
        talk, opinion, absurd = self._wordings(styles)
        needs_none, differ = open_ * talk, open_ * (1 - talk) * opinion
        columns = (
            supports, half, differ, needs_none, open_ - needs_none - differ, refuted * (1 - absurd), refuted * absurd,
        )  # fmt: skip
        table = np.stack(columns, axis=1)
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def _wordings(self, styles: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Shares of small talk, opinion, absurdity, shape `(3, n)`. A fact with a number or name is no small talk."""
        shares = 1 / (1 + np.exp(-(self.wording @ styles.T).astype(np.float64)))
        factual = (styles[:, _STYLE_AT["has_number"]] + styles[:, _STYLE_AT["has_name"]]) > 0
        shares[:2, factual] = 0.0
        return np.asarray(shares)


def _ordered(
    supports: npt.NDArray[np.float64],
    rows: npt.NDArray[np.float32],
    cap: npt.NDArray[np.float64],
    entailed: npt.NDArray[np.floating],
) -> npt.NDArray[np.float64]:
    """Support with coverage and the second reader weighed in, on the same side of one half, below `cap` on the lower.

    An answer to a question in the fact ("Question: … Answer: …") stays as it is: its words are mostly the question's.
    """
    window = rows[:, _AT["cover_two"]] * _PER_MISSING_NUMBER ** rows[:, _AT["numbers_missing"]]
    passage = rows[:, _AT["cover_passage"]] * _PER_MISSING_NUMBER ** rows[:, _AT["numbers_nowhere"]]
    odds = np.log((supports + 0.02) / (1.02 - supports)) + _COVERAGE * ((window + passage) / 2 - 1)
    odds = odds + _ENTAILED * np.clip(entailed, -_MOST_ENTAILED, _MOST_ENTAILED)
    above = _DECIDED + (1 - _DECIDED) / (1 + np.exp(-_SLOPE * odds))
    below = cap / (1 + np.exp(-_SLOPE * odds - _BELOW))
    found = np.where(supports >= _DECIDED, above, below)
    return np.asarray(np.where(rows[:, _AT["asked"]] > 0, supports, found))
