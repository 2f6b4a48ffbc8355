"""Boosted trees as flat arrays, evaluated with numpy alone. Pure.

Every tree's nodes lie in one array; a leaf points to itself, so that all trees of all rows step down together.
It does not know what the columns mean or how the trees were grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

FIELDS = ("feature", "threshold", "left", "right", "value", "roots")
# Rows x trees stepped down at once; keeps the working arrays inside the processor's cache.
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A sum of trees plus `base`, in log-odds, then `scale * score + shift` as calibrated on held-out groups.

    `feature`, `threshold`, `left`, `right`, `value` have one entry a node, `roots` one a tree; `depth` is the longest
    path. Rows go left where `row[feature] <= threshold`.
    """

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    roots: Ints
    depth: int
    base: float
    scale: float = 1.0
    shift: float = 0.0

    def score(self, rows: Floats) -> Floats:
        """Calibrated log-odds of shape `(n,)` for float32 rows `(n, features)`."""
        parts = [self._block(rows[at : at + _BLOCK]) for at in range(0, len(rows), _BLOCK)]
        total = np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
        return np.asarray(self.scale * (total + self.base) + self.shift, dtype=np.float32)

    def probability(self, rows: Floats) -> Floats:
        """Calibrated probabilities of shape `(n,)`."""
        return np.asarray(1.0 / (1.0 + np.exp(-self.score(rows))), dtype=np.float32)

    def _block(self, rows: Floats) -> Floats:
        nodes = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        lines = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            goes_left = rows[lines, self.feature[nodes]] <= self.threshold[nodes]
            nodes = np.where(goes_left, self.left[nodes], self.right[nodes])
        return np.asarray(self.value[nodes].sum(axis=1), dtype=np.float32)

    def arrays(self, name: str) -> dict[str, npt.NDArray[np.generic]]:
        """The arrays to store under `name`."""
        stored: dict[str, npt.NDArray[np.generic]] = {f"{name}.{field}": getattr(self, field) for field in FIELDS}
        stored[f"{name}.numbers"] = np.array([self.depth, self.base, self.scale, self.shift], dtype=np.float64)
        return stored

    @classmethod
    def stored(cls, arrays: Mapping[str, npt.NDArray[np.generic]], name: str) -> Ensemble:
        """The ensemble stored under `name`; raises KeyError when an array is missing."""
        depth, base, scale, shift = (float(x) for x in arrays[f"{name}.numbers"])
        kinds = {"threshold": np.float32, "value": np.float32}
        fields = {field: arrays[f"{name}.{field}"].astype(kinds.get(field, np.int32)) for field in FIELDS}
        return cls(depth=int(depth), base=base, scale=scale, shift=shift, **fields)  # type: ignore[arg-type]
