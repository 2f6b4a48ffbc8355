"""Judges, classifiers and checks by their configuration."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx

from checks.errors import LabelledDataError
from checks.evaluate.calibration import Calibration
from checks.facts.aggregate import Aggregation
from checks.facts.check import Deadlines, FactCheck, FactCheckSettings
from checks.facts.classify import LocalClassifier
from checks.facts.detector import CrossEncoderClassifier, EndpointClassifier, EndpointSettings, LabelMap
from checks.facts.drift import ScoreWatch
from checks.facts.judged import JudgedClassifier
from checks.facts.questions import JudgeQuestions, Questions, TemplateQuestions
from checks.judge.anthropic import AnthropicJudge
from checks.judge.base import JudgeSettings, VendorJudge
from checks.judge.openai import OpenAIJudge
from checks.types import Check, FactClassifier
from gateway.app.plugins import load_plugin
from gateway.app.reviewing import ReviewBuilder
from gateway.config.checking import AggregationConfig
from gateway.config.model import (
    ClassifierConfig,
    FactCheckConfig,
    GatewayConfig,
    JudgeConfig,
    PluginCheckConfig,
    ReviewCheckConfig,
    RouteConfig,
)
from gateway.config.modes import Release
from gateway.errors import ConfigError
from retrieval.types import Retriever


class CheckBuilder:
    """Builds the checks of one configuration; judges and the local classifier are shared between routes."""

    def __init__(self, config: GatewayConfig, resources: AsyncExitStack) -> None:
        self._configs = config.judges
        self._reviews = ReviewBuilder(config, resources)
        self._resources = resources
        self._judges: dict[str, VendorJudge] = {}
        self._local: dict[str, LocalClassifier] = {}

    async def build(self, config: RouteConfig, retriever: Retriever | None) -> Check | None:
        """The check of a route, or None."""
        check = config.check
        if isinstance(check, PluginCheckConfig):
            plugin: Check = load_plugin("checks", check.name)(retriever=retriever, **check.options)
            return plugin
        if check is None:
            return None
        if isinstance(check, ReviewCheckConfig):
            return await self._reviews.build(check, [await self._judge(name) for name in check.judges])
        assert retriever is not None
        classifier = await self._classifier(check.classifier)
        calibration = _calibration(check.aggregation)
        if calibration is not None:
            _require_same(calibration, check.aggregation, classifier)
        questions = await self._questions(check)
        # Where sentences leave before the answer is whole, no question may look beyond them: a plain answer must get
        # the same questions as a streamed one.
        settings = _settings(check, whole_answer=config.release is not Release.SENTENCE)
        return FactCheck(retriever, classifier, questions, settings)

    def watch(self, config: RouteConfig) -> ScoreWatch | None:
        """What tells whether a route's facts still look like those of its calibration; None without one."""
        if not isinstance(config.check, FactCheckConfig):
            return None
        calibration = _calibration(config.check.aggregation)
        return None if calibration is None else ScoreWatch(calibration.scores())

    async def _judge(self, name: str) -> VendorJudge:
        if name not in self._judges:
            self._judges[name] = await self._resources.enter_async_context(open_judge(name, self._configs[name]))
        return self._judges[name]

    async def _classifier(self, config: ClassifierConfig) -> FactClassifier:
        if config.kind == "judge":
            assert config.judge is not None
            return JudgedClassifier(await self._judge(config.judge))
        if config.kind == "plugin":
            classifier: FactClassifier = load_plugin("classifiers", config.name or "")(**config.options)
            return classifier
        if config.kind == "endpoint":
            return self._endpoint(config)
        if config.kind == "cross_encoder":
            return await asyncio.to_thread(CrossEncoderClassifier.open, config.model or "", LabelMap(config.labels))
        if config.kind not in self._local:
            # Half a second of reading files, beside running requests when the configuration was reloaded.
            both = config.kind == "local"
            self._local[config.kind] = await asyncio.to_thread(LocalClassifier.read, entailment=both)
        return self._local[config.kind]

    def _endpoint(self, config: ClassifierConfig) -> EndpointClassifier:
        headers = {"authorization": f"Bearer {config.api_key.get_secret_value()}"} if config.api_key else {}
        # How long it may take is a deadline of the check's stage.
        client = httpx.AsyncClient(headers=headers, timeout=None)  # noqa: S113
        self._resources.push_async_callback(client.aclose)
        return EndpointClassifier(EndpointSettings(url=config.url or "", labels=LabelMap(config.labels)), client)

    async def _questions(self, check: FactCheckConfig) -> Questions:
        if check.questions.kind == "judge":
            assert check.questions.judge is not None
            return JudgeQuestions(await self._judge(check.questions.judge), per_fact=check.questions.per_fact)
        return TemplateQuestions(per_fact=check.questions.per_fact)


def open_judge(name: str, config: JudgeConfig) -> VendorJudge:
    """The judge of a section, to be entered as an async context manager."""
    settings = _judge_settings(name, config)
    return OpenAIJudge(settings) if config.kind == "openai" else AnthropicJudge(settings)


def _judge_settings(name: str, config: JudgeConfig) -> JudgeSettings:
    return JudgeSettings(
        name=name,
        model=config.model,
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        base_url=config.base_url,
        timeout_s=config.timeout,
        attempts=config.attempts,
        concurrency=config.concurrency,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        input_price=config.input_price,
        output_price=config.output_price,
        proxy=config.proxy,
        ca_bundle=config.tls.ca_bundle,
        client_certificate=config.tls.client_certificate,
        client_key=config.tls.client_key,
    )


def aggregation_of(config: AggregationConfig) -> Aggregation:
    """The aggregation of a section; raises `ConfigError` where its labels cannot keep its budget."""
    calibration = _calibration(config)
    return Aggregation(
        kind=config.kind,
        support_threshold=config.support_threshold,
        refute_threshold=config.refute_threshold,
        fail_threshold=config.fail_threshold if calibration is None else _threshold(calibration, config),
        fails=config.fails,
    )


def _calibration(config: AggregationConfig) -> Calibration | None:
    try:
        return None if config.calibration is None else Calibration.read(config.calibration)
    except LabelledDataError as error:
        raise ConfigError(f"{error}; {error.hint}") from error


def _threshold(calibration: Calibration, config: AggregationConfig) -> float:
    assert config.budget is not None
    try:
        return calibration.threshold(config.budget)
    except LabelledDataError as error:
        raise ConfigError(f"{config.calibration}: {error}; {error.hint}") from error


def _require_same(calibration: Calibration, config: AggregationConfig, classifier: FactClassifier) -> None:
    """Scores of another classifier say nothing of this one's."""
    if calibration.classifier != classifier.version:
        raise ConfigError(
            f"{config.calibration} was made with the classifier {calibration.classifier}; this route has "
            f"{classifier.version}, whose scores are others: run `evaluate facts --data DIR --out FOLDER` again"
        )


def _settings(check: FactCheckConfig, *, whole_answer: bool) -> FactCheckSettings:
    timeouts = check.timeouts
    return FactCheckSettings(
        k=check.k,
        max_facts=check.max_facts,
        whole_answer=whole_answer,
        aggregation=aggregation_of(check.aggregation),
        deadlines=Deadlines(
            questions_s=timeouts.questions,
            search_s=timeouts.search,
            classify_s=timeouts.classify,
            total_s=timeouts.total,
        ),
    )
