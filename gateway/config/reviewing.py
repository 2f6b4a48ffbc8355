"""Sections about code reviews: repositories, and what a check of a review's issues does. Times are seconds.

Knows nothing of routes. What the words mean is in `checks.review`.
"""

from __future__ import annotations

import itertools
import re
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from checks.review.types import Severity
from gateway.config.backends import ADDRESS
from gateway.config.base import AnyPath, Conflict, ReadablePath, Strict, by_default, impossible

_REMOTE = re.compile(r"^(?:https?|ssh|file)://[^\s]+$|^[\w.-]+@[\w.-]+:[^\s]+$")
_OPENERS = ("token", "deploy_key", "deploy_key_file", "github_app")
_CREDENTIALS = re.compile(r"^https?://[^/\s]*@")


class GitHubAppConfig(Strict):
    """A GitHub App that may read the repository."""

    app_id: str
    """The App's id or client id."""
    installation_id: int | None = Field(default=None, ge=1)
    """Looked up for the repository by default."""
    private_key: SecretStr | None = None
    """The PEM text that GitHub made for the App."""
    private_key_file: ReadablePath | None = None
    api_url: str = Field(default="https://api.github.com", pattern=ADDRESS)
    """Of a self-managed server `https://HOST/api/v3`."""

    @model_validator(mode="after")
    def _key(self) -> Self:
        if (self.private_key is None) == (self.private_key_file is None):
            why = "a GitHub App needs private_key_file (or private_key, the PEM text itself): give one of the two"
            raise impossible(Conflict(why, ("private_key", "private_key_file")))
        return self


class RepositoryConfig(Strict):
    """A git repository that reviews may be about: mirrored under the data directory, or read where it lies."""

    url: str | None = Field(default=None, repr=False)
    """`https://...`, `ssh://...` or `git@host:owner/name.git`; credentials have keys of their own."""
    path: AnyPath | None = None
    """A repository on this machine, bare or not, read in place; what is not committed does not count."""
    web_url: str | None = Field(default=None, pattern=ADDRESS)
    """Where permalinks to it live, if that cannot be told from `url`."""
    token: SecretStr | None = None
    """An access token that may read it (https)."""
    token_file: AnyPath | None = None
    username: str = "x-access-token"
    """What goes with the token: GitHub and GitLab take any name, others the user's."""
    deploy_key: SecretStr | None = None
    """The text of a private key in PEM or OpenSSH form (ssh)."""
    deploy_key_file: ReadablePath | None = None
    deploy_key_passphrase: SecretStr | None = None
    deploy_key_passphrase_file: AnyPath | None = None
    github_app: GitHubAppConfig | None = None
    proxy: str | None = Field(default=None, pattern=r"^https?://", repr=False)
    ca_bundle: ReadablePath | None = None
    """Private CA of the server."""
    refresh: float = Field(default=300.0, ge=5)
    """Seconds between fetches in the background. A revision that is not there is fetched at once."""
    fetch_timeout: float = Field(default=300.0, gt=0)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        conflicts = [*self._places(), *self._credentials()]
        if conflicts:
            raise impossible(*conflicts)
        return self

    def _places(self) -> list[Conflict]:
        if (self.url is None) == (self.path is None):
            return [
                Conflict(
                    "a repository has url (mirrored) or path (on this machine): give one of the two", ("url", "path")
                )
            ]
        if self.url is not None and not _REMOTE.match(self.url):
            why = "url must be https://..., ssh://... or git@host:owner/name.git; a folder goes under path"
            return [Conflict(why, ("url",))]
        if self.url is not None and _CREDENTIALS.match(self.url):
            why = "url must hold no user or password, which would show in logs; use token or token_file"
            return [Conflict(why, ("url",))]
        return []

    def _credentials(self) -> list[Conflict]:
        given = [name for name in _OPENERS if getattr(self, name) is not None]
        if len(given) > 1:
            return [Conflict(f"{' and '.join(given)} exclude each other; keep one", tuple(given))]
        if given and self.path is not None:
            return [Conflict(f"a repository on this machine needs no {given[0]}; drop it", (given[0], "path"))]
        if given and self.url is not None:
            https = self.url.startswith("http")
            ssh = given[0].startswith("deploy_key")
            if ssh and https:
                why = f"{given[0]} opens ssh addresses; use url: git@host:owner/name.git, or a token"
                return [Conflict(why, (given[0], "url"))]
            if not ssh and not https:
                why = f"{given[0]} opens https addresses; use url: https://..., or deploy_key_file"
                return [Conflict(why, (given[0], "url"))]
        return []


class IssueAction(StrEnum):
    """What happens to an issue."""

    DROP = "drop"
    ANNOTATE = "annotate"
    KEEP = "keep"


class OutcomeActions(Strict):
    """What the outcomes of one severity do, where that differs from what they do in general."""

    hallucination: IssueAction | None = None
    undetermined: IssueAction | None = None
    abstained: IssueAction | None = None


class ReviewPolicies(Strict):
    """What becomes of an issue by its outcome. With `action: annotate` nothing is dropped: it is marked instead."""

    hallucination: IssueAction = IssueAction.DROP
    """It says what the code does not bear out. A severe or security issue is only dropped when two judges say so, and
    is annotated otherwise."""
    undetermined: IssueAction = IssueAction.KEEP
    """The judges could not tell, after all hops."""
    abstained: IssueAction = IssueAction.KEEP
    """Not judged: a judge was away, unreadable, or quoted what is not there."""
    nitpicks: IssueAction = IssueAction.KEEP
    """A valid issue that is a matter of taste."""
    relocate: bool = True
    """Correct the line of an issue whose quoted code stands elsewhere in its file."""
    severities: dict[Severity, OutcomeActions] = Field(default={})
    """Per severity, e.g. `{critical: {hallucination: annotate}}`."""


class ReviewTimeouts(Strict):
    """Deadlines of a review's check."""

    repository: float = Field(default=60.0, gt=0)
    """To find the commit, fetching included."""
    call: float = Field(default=60.0, gt=0)
    """One call of one judge; a judge that fails three times in a row is not asked again for the review."""
    issue: float = Field(default=120.0, gt=0)
    """All hops of one issue."""
    total: float = Field(default=300.0, gt=0)


def _inside(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not value or "\\" in value:
        raise ValueError("must be a path inside the repository, e.g. docs/review.md")
    return value


InRepository = Annotated[str, AfterValidator(_inside)]


class ReviewCheckConfig(Strict):
    """Check every issue of a code review against the code at the reviewed commit."""

    kind: Literal["code_review"]
    judges: tuple[str, ...] = Field(min_length=1)
    """Names of judges; all but `single` want two or more, best of different vendors."""
    variant: Literal["single", "or", "and", "majority", "multi_hop"] = "multi_hop"
    hops: int = Field(default=1, ge=1, le=8)
    """`multi_hop`: how many further files may be asked for. One is best in practice: more context lowers quality."""
    repositories: tuple[str, ...] = ()
    """Repositories that a request may be about. Without any, the files and diffs in the request are the code."""
    rules_file: InRepository | None = None
    """A file of the repository with its rules and accepted constraints, beside AGENTS.md and CONTRIBUTING.md."""
    policies: ReviewPolicies = by_default(ReviewPolicies)
    shadow: bool = False
    """Only record: the client is served at once, as if it had asked for `check: shadow`."""
    max_issues: int = Field(default=200, ge=1, le=2_000)
    """Issues beyond are not judged (`too_long`)."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Judges are not asked any more once a review has cost this much; needs their prices."""
    file_chars: int = Field(default=24_000, ge=1_000)
    """Most of one file that a judge is shown; larger ones are windowed around the issue."""
    concurrency: int = Field(default=8, ge=1, le=64)
    """Issues of one review judged at once."""
    timeouts: ReviewTimeouts = by_default(ReviewTimeouts)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        conflicts = list(self._conflicts())
        if conflicts:
            raise impossible(*conflicts)
        return self

    def _conflicts(self) -> list[Conflict]:
        found = []
        count = len(self.judges)
        if len(set(self.judges)) != count:
            found.append(Conflict("judges names one twice; each judge has one vote", ("judges",)))
        if self.variant == "single" and count != 1:
            why = f"variant: single asks one judge, and {count} are named; keep one, or take another variant"
            found.append(Conflict(why, ("judges", "variant")))
        if self.variant in ("or", "and", "multi_hop") and count < 2:
            why = f"variant: {self.variant} puts two or more judges together; name another one, or use variant: single"
            found.append(Conflict(why, ("judges", "variant")))
        if self.variant == "majority" and count < 3:
            why = "variant: majority needs three judges or more; with two it is `and`"
            found.append(Conflict(why, ("judges", "variant")))
        if self.variant != "multi_hop" and "hops" in self.model_fields_set:
            found.append(Conflict(f"variant: {self.variant} asks for no further files; drop hops", ("hops", "variant")))
        if self.rules_file is not None and not self.repositories:
            why = "rules_file is read from the repository, and the check has none; add repositories"
            found.append(Conflict(why, ("rules_file", "repositories")))
        found += self._never_run_out()
        return found

    def _never_run_out(self) -> list[Conflict]:
        steps = ("call", "issue", "total")
        for short, long in itertools.pairwise(steps):
            if getattr(self.timeouts, short) > getattr(self.timeouts, long):
                why = f"timeouts.{short} is longer than timeouts.{long}, so it never runs out; make it shorter"
                return [Conflict(why, ("timeouts",))]
        return []
