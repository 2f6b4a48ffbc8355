"""What libgit2 asks while it fetches: credentials, and whether to go on. Knows one repository's settings.

A refusal to give credentials, and the end of the time allowed, are told in `refusal`, because libgit2's own words for
both are poor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pygit2
from pygit2.enums import CredentialType

from checks.errors import RepositoryError
from checks.review.credentials import InstallationTokens, RepositorySettings, is_scp_like

# A server that closes its connections asks for each request of a fetch; one that refuses asks for ever. The number is
# below what code hosts take for an attack.
_MOST_GIVEN = 5


class Callbacks(pygit2.RemoteCallbacks):
    """The callbacks of one fetch. `over` says why it has to end now, "" while it may go on."""

    def __init__(
        self, settings: RepositorySettings, tokens: InstallationTokens | None, over: Callable[[], str]
    ) -> None:
        super().__init__()
        self._settings = settings
        self._tokens = tokens
        self._over = over
        self._given = 0
        self.refusal = ""

    def credentials(self, url: str, username_from_url: str | None, allowed_types: CredentialType) -> Any:
        """Called when the server wants to know who asks: again when it did not like the answer, or when it closed the
        connection in between."""
        if _host(url) != _host(self._settings.url):
            raise self._refuse(f"it redirects to {_host(url)}, which asks for credentials and is given none")
        if self._given >= _MOST_GIVEN:
            raise self._refuse("the server does not accept the credentials")
        user = username_from_url or "git"
        if allowed_types == CredentialType.USERNAME:
            return pygit2.Username(user)
        self._given += 1
        if allowed_types & CredentialType.SSH_KEY and self._settings.ssh_key:
            return pygit2.KeypairFromMemory(user, "", self._settings.ssh_key, self._settings.ssh_passphrase or "")
        if allowed_types & CredentialType.USERPASS_PLAINTEXT:
            try:
                secret = self._tokens.token() if self._tokens else self._settings.token
            except RepositoryError as error:
                raise self._refuse(str(error)) from error
            if secret:
                return pygit2.UserPass(self._settings.username, secret)
        raise self._refuse("the server asks for credentials, and none of the kind it takes are configured")

    def certificate_check(self, certificate: None, valid: bool, host: bytes | str) -> bool:
        """Called with libgit2's finding about a TLS certificate or an ssh host key; without this method a host key
        would be taken unseen."""
        if not valid:
            name = host.decode() if isinstance(host, bytes) else host
            self.refusal = (
                f"{name} cannot be trusted: its certificate is signed by no known CA, or its ssh host key is not in "
                "the known_hosts of the user that runs the gateway"
            )
        return valid

    def transfer_progress(self, stats: Any) -> None:
        """Called now and then while objects arrive."""
        why = self._over()
        if why:
            raise self._refuse(why)

    def sideband_progress(self, string: str) -> None:
        """The server's own words while it prepares."""
        self.transfer_progress(string)

    def _refuse(self, why: str) -> pygit2.GitError:
        self.refusal = why
        return pygit2.GitError(why)


def _host(url: str) -> str:
    if is_scp_like(url):
        return url.partition(":")[0].rpartition("@")[2].lower()
    return (urlsplit(url).hostname or "").lower()
