"""Upstreams by their configuration."""

from __future__ import annotations

from typing import Any

from gateway.app.plugins import load_plugin
from gateway.config.model import (
    AnthropicUpstreamConfig,
    AzureUpstreamConfig,
    ExtractiveUpstreamConfig,
    HttpUpstreamConfig,
    OpenAIUpstreamConfig,
    PluginUpstreamConfig,
    UpstreamConfig,
)
from gateway.upstream.anthropic import VERSION, AnthropicSpeech
from gateway.upstream.base import Upstream
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.openai import OpenAIUpstream
from gateway.upstream.pool import RetryPolicy
from gateway.upstream.settings import OpenAISettings, UpstreamTimeouts
from gateway.upstream.speech import AzureSpeech
from gateway.wire.messages.to_upstream import Carrying


def build_upstream(name: str, config: UpstreamConfig) -> Upstream:
    """The upstream of one section; opens nothing."""
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
    if isinstance(config, ExtractiveUpstreamConfig):
        return ExtractiveUpstream(name, max_sentences=config.max_sentences)
    assert isinstance(config, PluginUpstreamConfig)
    upstream = load_plugin("upstreams", config.name)(name=name, **config.options)
    assert isinstance(upstream, Upstream)
    return upstream


def _settings(config: HttpUpstreamConfig, **own: Any) -> OpenAISettings:
    """What all servers over HTTP have in common; `own` are the values of one kind."""
    timeouts, retries, tls = config.timeouts, config.retries, config.tls
    return OpenAISettings(
        base_url=config.base_url,
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        timeouts=UpstreamTimeouts(
            connect_s=timeouts.connect, first_byte_s=timeouts.first_byte, idle_s=timeouts.idle, total_s=timeouts.total
        ),
        retries=RetryPolicy(
            attempts=retries.attempts, max_delay_s=retries.max_delay, statuses=frozenset(retries.statuses)
        ),
        proxy=config.proxy,
        ca_bundle=tls.ca_bundle,
        client_certificate=tls.client_certificate,
        client_key=tls.client_key,
        connections=config.connections,
        max_response_bytes=config.max_response_bytes,
        **{"headers": config.headers, **own},
    )
