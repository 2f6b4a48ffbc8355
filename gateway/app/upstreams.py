"""Upstreams by their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.app.plugins import load_plugin
from gateway.config.model import (
    AnthropicUpstreamConfig,
    AzureUpstreamConfig,
    ExtractiveUpstreamConfig,
    HttpUpstreamConfig,
    OpenAIUpstreamConfig,
    PluginUpstreamConfig,
    PoolUpstreamConfig,
    ResponsesUpstreamConfig,
    UpstreamConfig,
)
from gateway.upstream.anthropic import VERSION, AnthropicSpeech
from gateway.upstream.base import Upstream
from gateway.upstream.breaker import BreakerPolicy
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.failing import Cause
from gateway.upstream.openai import OpenAIUpstream
from gateway.upstream.pool import Member, PoolSettings, PoolUpstream
from gateway.upstream.responses import ResponsesSpeech
from gateway.upstream.retrying import RetryPolicy
from gateway.upstream.settings import OpenAISettings, UpstreamTimeouts
from gateway.upstream.speech import AzureSpeech
from gateway.wire.messages.to_upstream import Carrying
from gateway.wire.responses.to_upstream import ResponsesCarrying


def build_upstreams(sections: Mapping[str, UpstreamConfig]) -> dict[str, Upstream]:
    """Every upstream by name; pools are made of the others. Opens nothing."""
    single = {
        name: build_upstream(name, section)
        for name, section in sections.items()
        if not isinstance(section, PoolUpstreamConfig)
    }
    pools = {
        name: _pool(name, section, sections, single)
        for name, section in sections.items()
        if isinstance(section, PoolUpstreamConfig)
    }
    return {**single, **pools}


def build_upstream(name: str, config: UpstreamConfig) -> Upstream:
    """The upstream of one section that is no pool; opens nothing."""
    if isinstance(config, OpenAIUpstreamConfig):
        settings = _settings(config, api_key_header=config.api_key_header, api_version=config.api_version)
        return OpenAIUpstream(settings, name)
    if isinstance(config, AzureUpstreamConfig):
        settings = _settings(config, api_key_header=config.api_key_header, api_version=config.api_version)
        return OpenAIUpstream(settings, name, speech=AzureSpeech(config.deployments))
    if isinstance(config, AnthropicUpstreamConfig):
        settings = _settings(
            config, api_key_header="x-api-key", headers={"anthropic-version": VERSION, **config.headers}
        )
        carrying = Carrying(
            max_tokens=config.max_tokens, thinking=config.thinking, ignored=frozenset(config.ignore_fields)
        )
        return OpenAIUpstream(settings, name, speech=AnthropicSpeech(carrying))
    if isinstance(config, ResponsesUpstreamConfig):
        settings = _settings(config, api_key_header=config.api_key_header, api_version=config.api_version)
        keeping = ResponsesCarrying(reasoning=config.reasoning, ignored=frozenset(config.ignore_fields))
        return OpenAIUpstream(settings, name, speech=ResponsesSpeech(keeping))
    if isinstance(config, ExtractiveUpstreamConfig):
        return ExtractiveUpstream(name, max_sentences=config.max_sentences)
    assert isinstance(config, PluginUpstreamConfig)
    upstream = load_plugin("upstreams", config.name)(name=name, **config.options)
    assert isinstance(upstream, Upstream)
    return upstream


def _pool(
    name: str, config: PoolUpstreamConfig, sections: Mapping[str, UpstreamConfig], single: Mapping[str, Upstream]
) -> PoolUpstream:
    members = []
    for member in config.members:
        extractive = isinstance(sections[member.upstream], ExtractiveUpstreamConfig)
        members.append(
            Member(
                single[member.upstream],
                weight=member.weight,
                priority=member.priority,
                # Quotes under the name of a model that never saw the question would be a lie.
                model=member.upstream if extractive else member.model,
                forwards=not extractive,
            )
        )
    settings = PoolSettings(
        retries=_retries(config),
        causes=frozenset(Cause(cause) for cause in config.fallback_on),
        breaker=BreakerPolicy(failures=config.breaker.failures, open_s=config.breaker.open_for),
        total_s=config.total,
        hedge_after_s=config.hedge_after,
    )
    return PoolUpstream(name, members, settings)


def _retries(config: HttpUpstreamConfig | PoolUpstreamConfig) -> RetryPolicy:
    retries = config.retries
    return RetryPolicy(attempts=retries.attempts, max_delay_s=retries.max_delay, statuses=frozenset(retries.statuses))


def _settings(config: HttpUpstreamConfig, **own: Any) -> OpenAISettings:
    """What all servers over HTTP have in common; `own` are the values of one kind."""
    timeouts, tls = config.timeouts, config.tls
    return OpenAISettings(
        base_url=config.base_url,
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        timeouts=UpstreamTimeouts(
            connect_s=timeouts.connect, first_byte_s=timeouts.first_byte, idle_s=timeouts.idle, total_s=timeouts.total
        ),
        retries=_retries(config),
        proxy=config.proxy,
        ca_bundle=tls.ca_bundle,
        client_certificate=tls.client_certificate,
        client_key=tls.client_key,
        connections=config.connections,
        max_response_bytes=config.max_response_bytes,
        **{"headers": config.headers, **own},
    )
