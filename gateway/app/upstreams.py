"""Upstreams by their configuration."""

from __future__ import annotations

from gateway.app.plugins import load_plugin
from gateway.config.model import (
    ExtractiveUpstreamConfig,
    OpenAIUpstreamConfig,
    PluginUpstreamConfig,
    UpstreamConfig,
)
from gateway.upstream.base import Upstream
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.openai import OpenAIUpstream
from gateway.upstream.pool import RetryPolicy
from gateway.upstream.settings import OpenAISettings, UpstreamTimeouts


def build_upstream(name: str, config: UpstreamConfig) -> Upstream:
    """The upstream of one section; opens nothing."""
    if isinstance(config, OpenAIUpstreamConfig):
        return OpenAIUpstream(_openai_settings(config), name)
    if isinstance(config, ExtractiveUpstreamConfig):
        return ExtractiveUpstream(name, max_sentences=config.max_sentences)
    assert isinstance(config, PluginUpstreamConfig)
    upstream = load_plugin("upstreams", config.name)(name=name, **config.options)
    assert isinstance(upstream, Upstream)
    return upstream


def _openai_settings(config: OpenAIUpstreamConfig) -> OpenAISettings:
    timeouts, retries, tls = config.timeouts, config.retries, config.tls
    return OpenAISettings(
        base_url=config.base_url,
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        api_key_header=config.api_key_header,
        api_version=config.api_version,
        headers=config.headers,
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
    )
