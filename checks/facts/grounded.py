"""The feature model: features of a pair to seven calibrated probabilities. Pure once read.

Four questions in a row: does the passage bear the fact out; if not, half of it; if not, does it speak against it; and
what is left open. The three labels about wording only divide what is left: they never take weight from a passage that
speaks for the fact. It does not know how features are made nor how many passages there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checks.errors import ModelFileError
from checks.facts.features import FEATURES
from checks.facts.style import STYLE
from checks.facts.trees import Ensemble

_AT = {name: at for at, name in enumerate(FEATURES)}
_STYLE_AT = {name: at for at, name in enumerate(STYLE)}
# A passage may refute only what it is about: at least this share of the fact's words in one sentence, its first name
# somewhere in the passage or its title. Below, the refuting weight shrinks to this factor.
_ON_TOPIC_COVER = 0.5
_OFF_TOPIC_FACTOR = 0.02
# A fact with this share of words that the passage has nowhere, and two of them at least, is not borne out, and neither
# is one whose number belongs to something else in the sentence, whatever the trees say.
_UNKNOWN_SHARE = 0.34
_NOT_BORNE_OUT = 0.2
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
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            about = json.loads(str(arrays["about"]))
            supports, half, refutes = (Ensemble.stored(arrays, name) for name in _STEPS)
            wording = arrays["wording"].astype(np.float32)
        except (OSError, KeyError, ValueError) as error:
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

    def probabilities(self, rows: npt.NDArray[np.float32], styles: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Seven probabilities a row: features `(n, len(FEATURES))`, styles `(n, len(STYLE))` to `(n, 7)`."""
        cover = rows[:, _AT["cover_anchor"]]
        supports = self.supports.probability(rows).astype(np.float64)
        unknown = rows[:, _AT["unknown"]]
        open_fact = (unknown >= 2) & (unknown >= _UNKNOWN_SHARE * rows[:, _AT["strong"]])
        capped = open_fact | (rows[:, _AT["misbound"]] > 0)
        supports = np.where(capped, np.minimum(supports, _NOT_BORNE_OUT), supports)
        half = (1 - supports) * self.half.probability(rows)
        refutes = self.refutes.probability(rows).astype(np.float64)
        off_topic = (cover < _ON_TOPIC_COVER) | (rows[:, _AT["subject_missing"]] > 0) | (rows[:, _AT["items"]] == 0)
        refutes = np.where(off_topic, refutes * _OFF_TOPIC_FACTOR, refutes)
        rest = 1 - supports - half
        against, open_ = rest * refutes, rest * (1 - refutes)
        talk, opinion, absurd = self._wordings(styles)
        needs_none, differ = open_ * talk, open_ * (1 - talk) * opinion
        columns = (
            supports, half, differ, needs_none, open_ - needs_none - differ, against * (1 - absurd), against * absurd,
        )  # fmt: skip
        table = np.stack(columns, axis=1)
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def _wordings(self, styles: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Shares of small talk, opinion, absurdity, shape `(3, n)`. A fact with a number or name is no small talk."""
        shares = 1 / (1 + np.exp(-(self.wording @ styles.T).astype(np.float64)))
        factual = (styles[:, _STYLE_AT["has_number"]] + styles[:, _STYLE_AT["has_name"]]) > 0
        shares[:2, factual] = 0.0
        return np.asarray(shares)
