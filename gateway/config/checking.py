"""Sections about checks: questions, classifier, aggregation, deadlines. Knows nothing of routes. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from checks.types import FactLabel
from gateway.config.backends import ADDRESS
from gateway.config.base import AnyPath, Conflict, ReadablePath, Strict, by_default, impossible
from gateway.config.problems import listed
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


_NEEDS: Final = {
    "judge": ("judge", "<name of a judge>"),
    "plugin": ("name", "<its entry point>"),
    "endpoint": ("url", "<address of the model's predict endpoint>"),
    "cross_encoder": ("model", "<name or directory of a cross-encoder>"),
}
_TAKES: Final[Mapping[str, frozenset[str]]] = {
    "judge": frozenset({"judge"}),
    "plugin": frozenset({"name", "options"}),
    "endpoint": frozenset({"url", "api_key", "api_key_file", "labels"}),
    "cross_encoder": frozenset({"model", "labels"}),
}


class ClassifierConfig(Strict):
    """What labels (fact, passage) pairs.

    `local` (shipped, no key), its `features` alone, a `judge`, an entailment model or hallucination detector behind an
    `endpoint` or in process (`cross_encoder`, needs the extra `models`), or one of another package (`plugin`).
    """

    kind: Literal["local", "features", "judge", "endpoint", "cross_encoder", "plugin"] = "local"
    judge: str | None = None
    url: str | None = Field(default=None, pattern=ADDRESS)
    """The whole address, e.g. `http://nli:8080/predict`."""
    api_key: SecretStr | None = None
    api_key_file: AnyPath | None = None
    """A file that holds the key, e.g. a mounted secret."""
    model: str | None = None
    labels: dict[str, FactLabel] = Field(default={})
    """What the model's labels mean, e.g. `{LABEL_0: "false", LABEL_1: "true"}`; usual names are known."""
    name: str | None = None
    options: dict[str, Any] = Field(default={}, repr=False)

    @field_validator("labels", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """YAML reads `true` and `false` as no words."""
        if not isinstance(value, dict):
            return value
        return {key: str(item).lower() if isinstance(item, bool) else item for key, item in value.items()}

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        needed, what = _NEEDS.get(self.kind, ("", ""))
        if needed and not getattr(self, needed):
            why = f"a classifier of kind '{self.kind}' needs {needed}: {what}"
            raise impossible(Conflict(why, ("kind", needed)))
        for key in sorted(self.model_fields_set - {"kind"} - _TAKES.get(self.kind, frozenset())):
            if getattr(self, key):
                kinds = listed(kind for kind, keys in _TAKES.items() if key in keys)
                why = (
                    f"{key} is nothing that a classifier of kind '{self.kind}' takes: leave it out, or use kind {kinds}"
                )
                raise impossible(Conflict(why, ("kind", key)))
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
    budget: float | None = Field(default=None, gt=0, lt=1)
    """`graded`, in place of `fail_threshold`: the share of true facts that may fail, kept by the labels in
    `calibration`."""
    calibration: ReadablePath | None = None
    """Labelled facts with their scores, as `evaluate facts --out` writes them."""
    fails: dict[FactLabel, bool] = Field(default={})
    """Overrides of which labels fail, e.g. `{half_true: true}`."""

    @model_validator(mode="after")
    def _budget(self) -> Self:
        if self.budget is None and self.calibration is None:
            return self
        if self.kind != "graded":
            raise impossible(Conflict("a false-alarm budget needs kind: graded", ("kind", "budget", "calibration")))
        if self.budget is None or self.calibration is None:
            why = "budget and calibration go together: the labels say which threshold keeps the budget"
            raise impossible(Conflict(why, ("budget", "calibration")))
        if "fail_threshold" in self.model_fields_set:
            why = "fail_threshold follows from budget and calibration: leave it out"
            raise impossible(Conflict(why, ("fail_threshold", "budget")))
        return self


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
