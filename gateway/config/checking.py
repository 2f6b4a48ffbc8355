"""Sections about checks: questions, classifier, aggregation, deadlines. Knows nothing of routes. Times are seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from checks.types import FactLabel
from gateway.config.base import Conflict, Strict, by_default, impossible
from gateway.config.reviewing import ReviewCheckConfig


class QuestionsConfig(Strict):
    """Search questions per fact: from templates, or from a judge that sees query, fact and answer."""

    kind: Literal["template", "judge"] = "template"
    judge: str | None = None
    per_fact: int = Field(default=2, ge=1, le=8)

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.kind == "judge" and not self.judge:
            raise impossible(Conflict("questions of kind 'judge' need judge: <name of a judge>", ("kind", "judge")))
        return self


class ClassifierConfig(Strict):
    """What labels (fact, passage) pairs: `local` (shipped, no key) or `judge`."""

    kind: Literal["local", "judge", "plugin"] = "local"
    judge: str | None = None
    name: str | None = None
    options: dict[str, Any] = Field(default={}, repr=False)

    @model_validator(mode="after")
    def _judge(self) -> Self:
        if self.kind == "judge" and not self.judge:
            raise impossible(Conflict("a classifier of kind 'judge' needs judge: <name of a judge>", ("kind", "judge")))
        if self.kind == "plugin" and not self.name:
            raise impossible(Conflict("a classifier of kind 'plugin' needs name: <its entry point>", ("kind", "name")))
        return self


class StageTimeouts(Strict):
    """Deadlines of a check's stages."""

    questions: float = Field(default=20.0, gt=0)
    search: float = Field(default=5.0, gt=0)
    classify: float = Field(default=60.0, gt=0)
    total: float = Field(default=90.0, gt=0)


class AggregationConfig(Strict):
    """How pair verdicts become a fact's, and facts' an answer's."""

    kind: Literal["strict", "graded"] = "strict"
    support_threshold: float = Field(default=0.5, gt=0, lt=1)
    """Probability of support that a passage must reach to confirm a fact."""
    refute_threshold: float = Field(default=0.5, gt=0, lt=1)
    """Probability of refutation that a passage must reach to refute one."""
    fail_threshold: float = Field(default=0.5, gt=0, lt=1)
    """`graded`: a fact whose probability of being wrong is above this fails."""
    fails: dict[FactLabel, bool] = Field(default={})
    """Overrides of which labels fail, e.g. `{half_true: true}`."""


class FactCheckConfig(Strict):
    """Check the facts of an answer against documents."""

    kind: Literal["facts"]
    collections: tuple[str, ...] = ()
    """Where evidence is searched; the route's retrieval collections by default."""
    k: int = Field(default=9, ge=1, le=100)
    questions: QuestionsConfig = by_default(QuestionsConfig)
    classifier: ClassifierConfig = by_default(ClassifierConfig)
    aggregation: AggregationConfig = by_default(AggregationConfig)
    timeouts: StageTimeouts = by_default(StageTimeouts)
    max_facts: int = Field(default=60, ge=1, le=1000)


class PluginCheckConfig(Strict):
    """A check from another package, by its entry point name."""

    kind: Literal["plugin"]
    name: str
    options: dict[str, Any] = Field(default={}, repr=False)
    whole_answer: bool = True


CheckConfig = Annotated[FactCheckConfig | ReviewCheckConfig | PluginCheckConfig, Field(discriminator="kind")]
