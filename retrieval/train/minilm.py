"""all-MiniLM-L6-v2 as a torch module that exports to a small, fast graph.

The same arithmetic as the BERT encoder it came from (Devlin et al. 2019; Wang et al. 2020, MiniLM), written for
serving: the query, key and value projections are one product, the mask is one addition, and mean pooling with L2
normalisation belongs to the graph, so that a batch leaves it as `(batch, 384)` and not as `(batch, tokens, 384)`.

Knows nothing of files, tokenizers or ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HIDDEN = 384
HEADS = 12
LAYERS = 6
EPSILON = 1e-12
MASKED = -10000.0  # far below any score, still finite in int8-quantised neighbours


def parameter(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value.contiguous(), requires_grad=False)


class Linear(nn.Module):  # type: ignore[misc, unused-ignore]
    """`x @ weight + bias`, the weight stored as (in, out): the form that a quantiser recognises."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = parameter(weight.t())
        self.bias = parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Norm(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.weight = parameter(weights[f"{name}.weight"])
        self.bias = parameter(weights[f"{name}.bias"])

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (HIDDEN,), self.weight, self.bias, EPSILON)


class Layer(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, weights: Mapping[str, Tensor], index: int) -> None:
        super().__init__()
        name = f"encoder.layer.{index}"

        def linear(part: str) -> Linear:
            return Linear(weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"])

        own = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        self.projections = Linear(
            torch.cat([weights[f"{part}.weight"] for part in own]), torch.cat([weights[f"{part}.bias"] for part in own])
        )
        self.attended = linear("attention.output.dense")
        self.attended_norm = Norm(weights, f"{name}.attention.output.LayerNorm")
        self.widen = linear("intermediate.dense")
        self.narrow = linear("output.dense")
        self.norm = Norm(weights, f"{name}.output.LayerNorm")

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch = x.shape[0]
        split = self.projections(x).split(HIDDEN, -1)
        query, key, value = (part.reshape(batch, -1, HEADS, HIDDEN // HEADS).transpose(1, 2) for part in split)
        scores = query @ key.transpose(-1, -2) * (HIDDEN // HEADS) ** -0.5 + mask
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, -1, HIDDEN)
        x = self.attended_norm(x + self.attended(mixed))
        return self.norm(x + self.narrow(F.gelu(self.widen(x))))


class SentenceEncoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """(input_ids, attention_mask), both int64 `(batch, tokens)`, to unit vectors float32 `(batch, 384)`."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        name = "embeddings"
        self.words = parameter(weights[f"{name}.word_embeddings.weight"])
        # One sentence at a time means one token type: its row is a constant that joins the positions.
        self.positions = parameter(
            weights[f"{name}.position_embeddings.weight"] + weights[f"{name}.token_type_embeddings.weight"][0]
        )
        self.norm = Norm(weights, f"{name}.LayerNorm")
        self.layers = nn.ModuleList([Layer(weights, index) for index in range(LAYERS)])

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.norm(F.embedding(input_ids, self.words) + self.positions[: input_ids.shape[1]])
        present = attention_mask.to(x.dtype)
        mask = ((1.0 - present) * MASKED)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weights = present.unsqueeze(-1)
        return F.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)
