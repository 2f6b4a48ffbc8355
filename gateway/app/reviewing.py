"""Code-review checks and the repositories they read, by their configuration."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pydantic import SecretStr

from checks.review.cache import MemoryReplies
from checks.review.check import ReviewCheck, ReviewDeadlines, ReviewSettings
from checks.review.credentials import GitHubApp, RepositorySettings
from checks.review.decide import Variant
from checks.review.policy import Act, Policies, Policy
from checks.review.repository import RepositoryPool
from checks.types import Check, Judge
from gateway.config.model import GatewayConfig, JudgeConfig, RepositoryConfig, ReviewCheckConfig
from gateway.config.reviewing import ReviewPolicies


class ReviewBuilder:
    """Builds the review checks of one configuration; mirrors and known replies are shared between its routes."""

    def __init__(self, config: GatewayConfig, resources: AsyncExitStack) -> None:
        self._config = config
        self._resources = resources
        self._replies = MemoryReplies()
        self._pool: RepositoryPool | None = None
        # The fences around code in prompts: nobody who writes code or issues can know them.
        self._seed = secrets.token_hex(16)

    async def build(self, check: ReviewCheckConfig, judges: Sequence[Judge]) -> Check:
        """The check of a route. Raises `RepositoryError` for a repository that cannot be set up."""
        pool = await self._opened()
        settings = review_settings(check, self._config.judges, seed=self._seed)
        return ReviewCheck(judges, pool.only(check.repositories), settings, replies=self._replies)

    async def _opened(self) -> RepositoryPool:
        if self._pool is None:
            routes = self._config.routes.values()
            checks = [route.check for route in routes if isinstance(route.check, ReviewCheckConfig)]
            named = {name for check in checks for name in check.repositories}
            settings = [repository_settings(name, self._config.repositories[name]) for name in sorted(named)]
            deadline_s = max(check.timeouts.repository for check in checks)
            pool = RepositoryPool(settings, self._config.data_dir / "repositories", deadline_s=deadline_s)
            self._pool = await self._resources.enter_async_context(pool)
        return self._pool


def repository_settings(name: str, config: RepositoryConfig) -> RepositorySettings:
    """What opens one repository. Reads key files."""
    app = config.github_app
    return RepositorySettings(
        name=name,
        url=config.url if config.url is not None else str(config.path),
        token=_secret(config.token),
        username=config.username,
        ssh_key=_secret(config.deploy_key, config.deploy_key_file),
        ssh_passphrase=_secret(config.deploy_key_passphrase),
        github_app=None
        if app is None
        else GitHubApp(
            app_id=app.app_id,
            private_key=_secret(app.private_key, app.private_key_file) or "",
            installation_id=app.installation_id,
            api_url=app.api_url,
        ),
        ca_bundle=config.ca_bundle,
        proxy=config.proxy,
        web_url=config.web_url,
        refresh_s=config.refresh,
        fetch_timeout_s=config.fetch_timeout,
    )


def review_settings(check: ReviewCheckConfig, judges: Mapping[str, JudgeConfig], *, seed: str = "") -> ReviewSettings:
    """How a route's reviews are checked."""
    timeouts = check.timeouts
    return ReviewSettings(
        variant=Variant(check.variant),
        hops=check.hops,
        policies=_policies(check.policies),
        deadlines=ReviewDeadlines(
            repository_s=timeouts.repository,
            call_s=timeouts.call,
            issue_s=timeouts.issue,
            total_s=timeouts.total,
        ),
        max_issues=check.max_issues,
        max_cost_usd=check.max_cost_usd,
        file_chars=check.file_chars,
        concurrency=check.concurrency,
        rules=(check.rules_file,) if check.rules_file else (),
        seed=seed,
        versions={name: judges[name].model for name in check.judges},
    )


def _policies(config: ReviewPolicies) -> Policies:
    general = Policy(
        hallucination=Act(config.hallucination),
        undetermined=Act(config.undetermined),
        abstained=Act(config.abstained),
    )
    return Policies(
        general=general,
        severities={
            severity: Policy(
                hallucination=Act(own.hallucination or config.hallucination),
                undetermined=Act(own.undetermined or config.undetermined),
                abstained=Act(own.abstained or config.abstained),
            )
            for severity, own in config.severities.items()
        },
        nitpicks=Act(config.nitpicks),
        relocate=config.relocate,
    )


def _secret(value: SecretStr | None, file: Path | None = None) -> str | None:
    if file is not None:
        return file.read_text()
    return value.get_secret_value() if value is not None else None
