"""Judges, classifiers and checks by their configuration."""

from __future__ import annotations

from contextlib import AsyncExitStack

from checks.facts.aggregate import Aggregation
from checks.facts.check import Deadlines, FactCheck, FactCheckSettings
from checks.facts.classify import LocalClassifier
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
from retrieval.types import Retriever


class CheckBuilder:
    """Builds the checks of one configuration; judges and the local classifier are shared between routes."""

    def __init__(self, config: GatewayConfig, resources: AsyncExitStack) -> None:
        self._configs = config.judges
        self._reviews = ReviewBuilder(config, resources)
        self._resources = resources
        self._judges: dict[str, VendorJudge] = {}
        self._local: LocalClassifier | None = None

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
        questions = await self._questions(check)
        # Where sentences leave before the answer is whole, no question may look beyond them: a plain answer must get
        # the same questions as a streamed one.
        settings = _settings(check, whole_answer=config.release is not Release.SENTENCE)
        return FactCheck(retriever, classifier, questions, settings)

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
        if self._local is None:
            self._local = LocalClassifier.read()
        return self._local

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
    """The aggregation of a section."""
    return Aggregation(
        kind=config.kind,
        support_threshold=config.support_threshold,
        refute_threshold=config.refute_threshold,
        fail_threshold=config.fail_threshold,
        fails=config.fails,
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
