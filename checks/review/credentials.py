"""What opens a repository: tokens, deploy keys, GitHub App credentials. Holds secrets; shows none of them.

A secret goes to the configured host only: when a server redirects elsewhere and that one asks, it gets nothing.
GitHub Apps: a JSON Web Token signed by the App's key (RS256, RFC 7519) buys an installation token
(https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app), kept until a minute before its
end. Knows nothing of fetching.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import jwt

from checks.errors import RepositoryError

_ASSERTION_S = 540
_BACKDATED_S = 60
_SPARE_S = 60
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubApp:
    """A GitHub App. Without `installation_id` it is looked up for the repository. `private_key` is the PEM text."""

    app_id: str
    private_key: str = field(repr=False)
    installation_id: int | None = None
    api_url: str = "https://api.github.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositorySettings:
    """One repository. `url` is https, ssh (`git@host:owner/name.git` too), `file://`, or a local path, which is read
    where it lies. The host key of an ssh address has to stand in the user's `~/.ssh/known_hosts`. Secrets are texts:
    `token`, `ssh_key` (PEM), `github_app`. `web_url` is where its permalinks live, derived from `url` where that is
    possible. `pull_refs` are fetched when a commit is found in no branch."""

    name: str
    url: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    username: str = "x-access-token"
    ssh_key: str | None = field(default=None, repr=False)
    ssh_passphrase: str | None = field(default=None, repr=False)
    github_app: GitHubApp | None = None
    ca_bundle: Path | None = None
    proxy: str | None = field(default=None, repr=False)
    web_url: str | None = None
    refresh_s: float = 300.0
    fetch_timeout_s: float = 300.0
    pull_refs: tuple[str, ...] = (
        "refs/pull/*/head",
        "refs/merge-requests/*/head",
        "refs/pull-requests/*/from",
    )

    @property
    def local(self) -> Path | None:
        """The folder of a repository that is read in place, None for one that is mirrored."""
        return None if "://" in self.url or is_scp_like(self.url) else Path(self.url).expanduser()

    @property
    def shown_url(self) -> str:
        """The address without credentials."""
        if "://" not in self.url:
            return self.url
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    @property
    def web(self) -> str | None:
        """`host/owner/name` as permalinks have it, lower case; None for local ones without `web_url`."""
        text = self.web_url or (None if self.local or self.url.startswith("file:") else self.url)
        if text is None:
            return None
        if is_scp_like(text):
            host, _, path = text.rpartition("@")[2].partition(":")
        else:
            parts = urlsplit(text)
            # The port of an ssh address is no part of its permalinks.
            host = (parts.hostname or "") if parts.scheme == "ssh" else parts.netloc.rpartition("@")[2]
            path = parts.path
        return f"{host}/{path.strip('/').removesuffix('.git')}".lower()


def is_scp_like(url: str) -> bool:
    """`git@host:path`, the short form of an ssh address."""
    head, colon, _ = url.partition(":")
    return bool(colon) and "://" not in url and "/" not in head and len(head) > 1


class InstallationTokens:
    """Tokens of one GitHub App for one repository. Thread-safe; call it off the event loop."""

    def __init__(self, app: GitHubApp, settings: RepositorySettings, *, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """A token good for a minute or more. Raises `RepositoryError` when GitHub gives none."""
        with self._lock:
            if self._clock() >= self._until - _SPARE_S:
                self._token, self._until = self._exchange()
            return self._token

    def _exchange(self) -> tuple[str, float]:
        try:
            with self._client() as client:
                number = self._app.installation_id or self._installation(client)
                reply = client.post(
                    f"/app/installations/{number}/access_tokens", json={"permissions": {"contents": "read"}}
                )
                reply.raise_for_status()
                body = reply.json()
                return str(body["token"]), datetime.fromisoformat(body["expires_at"]).timestamp()
        except httpx.HTTPStatusError as error:
            raise self._refused(f"answered {error.response.status_code}") from error
        except (httpx.HTTPError, OSError) as error:
            raise self._refused(f"could not be reached: {type(error).__name__}") from error
        except (KeyError, ValueError, TypeError) as error:
            raise self._refused("gave a reply that is no installation token") from error

    def _installation(self, client: httpx.Client) -> int:
        slug = (self._settings.web or "").partition("/")[2]
        reply = client.get(f"/repos/{slug}/installation")
        reply.raise_for_status()
        return int(reply.json()["id"])

    def _client(self) -> httpx.Client:
        ca = self._settings.ca_bundle
        headers = {
            "authorization": f"Bearer {self._assertion()}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
        }
        return httpx.Client(
            base_url=self._app.api_url,
            headers=headers,
            timeout=_TIMEOUT_S,
            verify=ssl.create_default_context(cafile=str(ca)) if ca else True,
            proxy=self._settings.proxy,
        )

    def _assertion(self) -> str:
        now = int(self._clock())
        claims = {"iat": now - _BACKDATED_S, "exp": now + _ASSERTION_S, "iss": self._app.app_id}
        try:
            return jwt.encode(claims, self._app.private_key, algorithm="RS256")
        except (ValueError, TypeError, jwt.PyJWTError) as error:
            raise RepositoryError(
                f"repository {self._settings.name}: the private key of the GitHub App cannot be used",
                hint="give the PEM file that GitHub made for the App, whole, as the private key",
            ) from error

    def _refused(self, what: str) -> RepositoryError:
        return RepositoryError(
            f"repository {self._settings.name}: {self._app.api_url} {what} when asked for a token of the GitHub App",
            hint="check app_id and installation_id, that the App is installed on the repository, and api_url",
        )
