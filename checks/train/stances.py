"""The cross-encoder as torch modules: one to train, one that exports to a small graph. Knows no files but its weights.

The body is BERT (Devlin et al. 2019) in MiniLM's size; the head reads the first token beside the mean of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertModel  # type: ignore[import-not-found, unused-ignore]

from retrieval.train.minilm import HIDDEN, LAYERS, MASKED, Layer, Linear, Norm, parameter

if TYPE_CHECKING:
    from checks.train.entailment import Row

HEAD = 256
CLASSES = 4


class Stances(nn.Module):  # type: ignore[misc, unused-ignore]
    """(input_ids, token_type_ids, attention_mask), int64 `(batch, tokens)`, to logits float32 `(batch, 4)`."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.m = body
        self.h = nn.Linear(2 * HIDDEN, HEAD)
        self.o = nn.Linear(HEAD, CLASSES)
        nn.init.normal_(self.o.weight, 0, 0.02)

    @classmethod
    def pretrained(cls, source: Path, *, frozen: int = 0) -> Stances:
        """Over the encoder's weights; its embeddings and the first `frozen` layers do not learn."""
        body = BertModel.from_pretrained(
            str(source), attn_implementation="sdpa", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            add_pooling_layer=False,
        )  # fmt: skip
        model = cls(body)
        for part in (body.embeddings, *body.encoder.layer[:frozen]):
            part.requires_grad_(requires_grad=False)
        return model

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.m(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(x.dtype)
        mean = (x * weights).sum(1) / weights.sum(1)
        return self.o(torch.tanh(self.h(torch.cat([x[:, 0], mean], 1)))).float()

    def head_parameters(self) -> list[Tensor]:
        """What was not pretrained."""
        return [*self.h.parameters(), *self.o.parameters()]

    def body_parameters(self) -> list[Tensor]:
        """What was pretrained and learns."""
        return [value for value in self.m.parameters() if value.requires_grad]


class Served(nn.Module):  # type: ignore[misc, unused-ignore]
    """The same arithmetic as `Stances`, in the form that the quantiser of the encoder recognises."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        body = {name.removeprefix("m."): value for name, value in weights.items() if name.startswith("m.")}
        self.words = parameter(body["embeddings.word_embeddings.weight"])
        self.positions = parameter(body["embeddings.position_embeddings.weight"])
        self.kinds = parameter(body["embeddings.token_type_embeddings.weight"])
        self.norm = Norm(body, "embeddings.LayerNorm")
        self.layers = nn.ModuleList([Layer(body, index) for index in range(LAYERS)])
        self.head = Linear(weights["h.weight"], weights["h.bias"])
        self.out = Linear(weights["o.weight"], weights["o.bias"])

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        kinds = token_type_ids.unsqueeze(-1).to(self.kinds.dtype)
        # A product and not a look-up: the table has two rows, and would be quantised for nothing.
        x = F.embedding(input_ids, self.words) + self.positions[: input_ids.shape[1]]
        x = self.norm(x + self.kinds[0] + kinds * (self.kinds[1] - self.kinds[0]))
        present = attention_mask.to(x.dtype)
        mask = ((1.0 - present) * MASKED)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weights = present.unsqueeze(-1)
        mean = (x * weights).sum(1) / weights.sum(1)
        return self.out(torch.tanh(self.head(torch.cat([x[:, 0], mean], 1))))


def padded(batch: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, types and mask of a batch."""
    width = max(len(row.ids) for row in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for at, row in enumerate(batch):
        ids[at, : len(row.ids)] = torch.tensor(row.ids)
        types[at, : len(row.ids)] = torch.tensor(row.types)
        mask[at, : len(row.ids)] = 1
    return ids, types, mask


def loss_of(model: Stances, batch: Sequence[Row]) -> Tensor:
    """Weighted cross-entropy; of a coarse pair only support against the rest counts."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(*padded(batch))
    shares = F.log_softmax(logits, 1)
    stance = torch.tensor([row.stance for row in batch])
    fine = shares.gather(1, stance[:, None])[:, 0]
    rough = torch.where(stance == 0, shares[:, 0], torch.logsumexp(shares[:, 1:], 1))
    weights = torch.tensor([row.weight for row in batch])
    chosen = torch.where(torch.tensor([row.coarse for row in batch]), rough, fine)
    return -(chosen * weights).sum() / weights.sum()
