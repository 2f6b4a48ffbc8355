"""The judges that a command is told to use: names from the configuration, or an address on the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pydantic import ValidationError

from checks.types import Judge
from gateway.app.judging import open_judge
from gateway.cli.output import USAGE, fail
from gateway.cli.panel import HELP
from gateway.config.load import load
from gateway.config.locate import locate
from gateway.config.model import JudgeConfig
from gateway.config.problems import listed, suggestion

_SPEC = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]{0,62})=(?P<kind>openai|anthropic):(?P<model>[^@\s]+)(@(?P<url>\S+))?")


def chosen(specs: Sequence[str], config: Path | None) -> dict[str, JudgeConfig]:
    """The judges named, in order. Ends the process for one that is not known."""
    found: dict[str, JudgeConfig] = {}
    configured: Mapping[str, JudgeConfig] | None = None
    for spec in specs:
        matched = _SPEC.fullmatch(spec)
        if matched is not None:
            found[matched["name"]] = _given(matched)
            continue
        if configured is None:
            configured = load(locate(config, os.environ, Path.cwd()), os.environ).judges
        if spec not in configured:
            known = listed(configured) or "none"
            fail(f"there is no judge '{spec}'{suggestion(spec, configured)}", f"known: {known}; or {HELP}", USAGE)
        found[spec] = configured[spec]
    if len(found) != len(specs):
        fail("a judge is named twice; each has one vote", code=USAGE)
    return found


async def opened(judges: Mapping[str, JudgeConfig], stack: AsyncExitStack) -> list[Judge]:
    """The judges, with their connections closed by `stack`."""
    return [await stack.enter_async_context(open_judge(name, config)) for name, config in judges.items()]


def _given(matched: re.Match[str]) -> JudgeConfig:
    key = os.environ.get(f"{re.sub(r'[.-]', '_', matched['name']).upper()}_API_KEY")
    try:
        return JudgeConfig.model_validate(
            {
                "kind": matched["kind"],
                "model": matched["model"],
                "base_url": matched["url"],
                "api_key": key,
                # No other request waits for these, and a model on a small machine takes its time.
                "timeout": 600.0,
            }
        )
    except ValidationError as error:
        fail(f"judge {matched['name']!r}: {error.errors()[0]['msg']}", HELP, USAGE)
