"""The gateway without a listening socket: one request through the same application, for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from gateway.app.application import create_app
from gateway.app.serving import serving
from gateway.config.model import GatewayConfig


async def call(
    config: GatewayConfig, config_path: Path, path: str, body: Mapping[str, Any], key: str | None
) -> httpx.Response:
    """POST `body` to `path` of a gateway that lives for this one call; it is recorded like any other."""
    async with serving(config, config_path) as desk:
        transport = httpx.ASGITransport(app=create_app(lambda: desk))  # type: ignore[arg-type]
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
            return await client.post(path, json=body, headers=headers)
