from __future__ import annotations

import fcntl
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pygit2
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from checks.errors import RepositoryError
from checks.review.credentials import GitHubApp, InstallationTokens, RepositorySettings
from checks.review.mirror import GitMirror
from checks.review.transport import Callbacks
from tests.checks.review.git_server import GitServer, serving
from tests.checks.review.repos import Repo


@pytest.fixture
def origin(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "origin.git")


def mirror_of(url: str, tmp_path: Path, **more: Any) -> GitMirror:
    return GitMirror(RepositorySettings(name="app", url=url, **more), tmp_path / "mirrors")


@pytest.fixture
def served(origin: Repo) -> Iterator[tuple[GitServer, str]]:
    origin.commit({"a.py": "a = 1\n"})
    server = GitServer(origin.path, token="s3cret-token")
    with serving(server) as address:
        yield server, f"{address}/team/app"
    server.close()


def test_a_commit_of_a_pull_request_that_no_branch_has_is_found(origin: Repo, tmp_path: Path) -> None:
    main = origin.commit({"a.py": "1\n"})
    pull = origin.commit({"a.py": "2\n"}, main, ref="refs/pull/7/head")
    merge = origin.commit({"a.py": "3\n"}, main, ref="refs/merge-requests/9/head")
    mirror = mirror_of(origin.path.as_uri(), tmp_path)
    for revision, commit in ((pull, pull), (pull[:10], pull), ("pull/7", pull), ("merge-requests/9", merge)):
        mirror.fetch(revision)
        assert mirror.resolve(revision) == commit


def test_an_unknown_commit_and_revision_syntax_are_unknown_and_no_error(origin: Repo, tmp_path: Path) -> None:
    main = origin.commit({"a.py": "1\n"})
    mirror = mirror_of(origin.path.as_uri(), tmp_path)
    mirror.fetch("f" * 40)
    for revision in ("f" * 40, "main~1", "main^{tree}", "@{-1}", ":/change", "../main", "", origin.blob(main, "a.py")):
        assert mirror.resolve(revision) is None


def test_a_branch_that_became_a_folder_and_a_rewritten_branch_are_still_fetched(origin: Repo, tmp_path: Path) -> None:
    first = origin.commit({"a.py": "1\n"}, ref="refs/heads/topic")
    mirror = mirror_of(origin.path.as_uri(), tmp_path)
    mirror.fetch()
    origin.git.references.delete("refs/heads/topic")
    second = origin.commit({"a.py": "2\n"}, ref="refs/heads/topic/one")
    mirror.fetch()
    assert mirror.resolve("topic/one") == second
    # The old commit was reviewed once: it stays readable although no branch leads to it any more.
    assert mirror.resolve(first) == first


def test_a_local_repository_is_read_where_it_lies(origin: Repo, tmp_path: Path) -> None:
    head = origin.commit({"a.py": "1\n"})
    mirror = mirror_of(str(origin.path), tmp_path)
    mirror.fetch()
    assert (mirror.resolve("main"), mirror.resolve(head[:8])) == (head, head)
    assert not (tmp_path / "mirrors").exists()


def test_a_missing_local_repository_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="there is nothing at") as error:
        mirror_of(str(tmp_path / "nowhere"), tmp_path).repository()
    assert "path" in error.value.hint


def test_a_private_repository_opens_with_its_token(served: tuple[GitServer, str], origin: Repo, tmp_path: Path) -> None:
    _, url = served
    mirror = mirror_of(url, tmp_path, token="s3cret-token")
    mirror.fetch()
    assert mirror.resolve("main") == str(origin.git.references["refs/heads/main"].target)


@pytest.mark.parametrize(
    ("token", "words"), [(None, "none of the kind it takes"), ("wr0ng-token", "does not accept the credentials")]
)
def test_a_refused_token_is_told_without_showing_it(
    served: tuple[GitServer, str], tmp_path: Path, token: str | None, words: str
) -> None:
    _, url = served
    with pytest.raises(RepositoryError, match=words) as error:
        mirror_of(url.replace("://", "://user:pa55@") if token else url, tmp_path, token=token).fetch()
    assert "wr0ng-token" not in str(error.value)
    assert "pa55" not in str(error.value)


def test_a_token_is_not_sent_to_another_host_that_the_server_redirects_to(
    served: tuple[GitServer, str], tmp_path: Path
) -> None:
    server, url = served

    def redirecting(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        target = url.replace("localhost", "127.0.0.1") + environ["PATH_INFO"].removeprefix("/team/app")
        query = f"?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else ""
        start_response("302 Found", [("Location", target + query), ("Content-Length", "0")])
        return [b""]

    with serving(redirecting) as address, pytest.raises(RepositoryError):
        mirror_of(f"{address}/team/app", tmp_path, token="s3cret-token").fetch()
    assert not any(server.authorizations)


def test_a_self_managed_host_with_a_private_ca_is_reached_and_an_unknown_one_refused(
    origin: Repo, tmp_path: Path
) -> None:
    head = origin.commit({"a.py": "1\n"})
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    bundle = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(bundle))
    server = GitServer(origin.path)
    program = (
        "import sys, pygit2, pathlib\n"
        "from checks.review.credentials import RepositorySettings\nfrom checks.review.mirror import GitMirror\n"
        "url, folder, ca = sys.argv[1:]\n"
        "if ca != '-': pygit2.settings.set_ssl_cert_locations(ca, None)\n"
        "m = GitMirror(RepositorySettings(name='app', url=url), pathlib.Path(folder))\n"
        "m.fetch()\nprint(m.resolve('main'))\n"
    )
    with serving(server, context) as address:
        # Each in a process of its own: what libgit2 trusts is set for a whole process.
        runs = [
            subprocess.run(
                [sys.executable, "-c", program, f"{address}/team/app", str(tmp_path / f"m{n}"), given],
                capture_output=True,
                text=True,
                check=False,
            )
            for n, given in enumerate((str(bundle), "-"))
        ]
    server.close()
    assert runs[0].stdout.strip() == head, runs[0].stderr
    assert runs[1].returncode != 0
    assert "certificate" in runs[1].stderr.lower()


def test_a_killed_fetch_leaves_nothing_that_stops_the_next_one(origin: Repo, tmp_path: Path) -> None:
    head = origin.commit({"a.py": "1\n"})
    mirror = mirror_of(origin.path.as_uri(), tmp_path)
    mirror.repository()
    # A child takes the lock, as a fetch does, leaves what a fetch leaves, and is killed.
    child = os.fork()
    if child == 0:
        handle = os.open(mirror.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(handle, fcntl.LOCK_EX)
        (mirror.path / "refs" / "heads" / "main.lock").write_text("half")
        (mirror.path / "objects" / "pack" / "pack_git2_0a1b2c").write_bytes(b"PACK\0\0")
        (mirror.path / "ready").write_text("")
        signal.pause()
        os._exit(0)
    while not (mirror.path / "ready").exists():
        os.sched_yield()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    mirror.fetch()
    assert mirror.resolve("main") == head
    assert not list((mirror.path / "objects" / "pack").glob("pack_git2_*"))


def test_a_fetch_waits_for_another_process_and_says_so_when_it_waits_too_long(origin: Repo, tmp_path: Path) -> None:
    origin.commit({"a.py": "1\n"})
    mirror = mirror_of(origin.path.as_uri(), tmp_path, fetch_timeout_s=0.0)
    mirror.repository()
    handle = os.open(mirror.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(RepositoryError, match="another process has been fetching"):
            mirror.fetch()
    finally:
        os.close(handle)


def test_an_ssh_host_that_the_user_does_not_know_is_not_trusted() -> None:
    settings = RepositorySettings(name="app", url="git@git.example:team/app.git")
    callbacks = Callbacks(settings, None, lambda: "")
    # For ssh, libgit2 passes what known_hosts said; nothing else stands between a key and a host in the middle.
    assert not callbacks.certificate_check(None, valid=False, host=b"git.example")
    assert "git.example cannot be trusted" in callbacks.refusal
    assert "known_hosts" in callbacks.refusal
    assert callbacks.certificate_check(None, valid=True, host=b"git.example")


def test_a_gateway_that_stops_does_not_wait_for_its_fetches(
    served: tuple[GitServer, str], origin: Repo, tmp_path: Path
) -> None:
    _, url = served
    mirror = mirror_of(url, tmp_path, token="s3cret-token")
    mirror.close()
    with pytest.raises(RepositoryError, match="the gateway is stopping"):
        mirror.fetch()


def test_a_fetch_that_takes_too_long_says_so(served: tuple[GitServer, str], tmp_path: Path) -> None:
    _, url = served
    with pytest.raises(RepositoryError, match="it took longer than 0 seconds"):
        mirror_of(url, tmp_path, token="s3cret-token", fetch_timeout_s=0.0).fetch()


def test_an_unreachable_server_is_an_error_that_names_repository_and_address(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"repository app could not be fetched from http://127\.0\.0\.1:9/x") as e:
        mirror_of("http://127.0.0.1:9/x", tmp_path).fetch()
    assert "proxy" in e.value.hint


def pem(key: rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_a_github_app_fetches_with_an_installation_token_made_for_it(
    served: tuple[GitServer, str], origin: Repo, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    asked: list[str] = []

    def api(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        asked.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        assertion = environ["HTTP_AUTHORIZATION"].partition(" ")[2]
        claims = jwt.decode(assertion, key.public_key(), algorithms=["RS256"])
        assert claims["iss"] == "12345"
        found = environ["PATH_INFO"].endswith("/installation")
        body = {"id": 77} if found else {"token": "s3cret-token", "expires_at": "2999-01-01T00:00:00Z"}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    _, url = served
    with serving(api) as address:
        app = GitHubApp(app_id="12345", private_key=pem(key), api_url=address)
        mirror = mirror_of(url, tmp_path, github_app=app)
        mirror.fetch()
        mirror.fetch()
    assert mirror.resolve("main") == str(origin.git.references["refs/heads/main"].target)
    # The token was kept: one look-up, one exchange, two fetches.
    assert asked == ["GET /repos/team/app/installation", "POST /app/installations/77/access_tokens"]


def test_a_broken_app_key_says_so_and_does_not_show_it(tmp_path: Path) -> None:
    app = GitHubApp(app_id="1", private_key="-----BEGIN KEY----- secret", installation_id=1)
    settings = RepositorySettings(name="app", url="https://github.com/team/app", github_app=app)
    with pytest.raises(RepositoryError, match="private key of the GitHub App cannot be used") as error:
        InstallationTokens(app, settings).token()
    assert "secret" not in str(error.value)
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("url", "web"),
    [
        ("https://user:pw@GitHub.com/Team/App.git", "github.com/team/app"),
        ("git@github.com:team/app.git", "github.com/team/app"),
        ("ssh://git@git.example:2222/team/app.git", "git.example/team/app"),
        ("https://git.example:8443/group/sub/app", "git.example:8443/group/sub/app"),
        ("file:///srv/app.git", None),
        ("/srv/app.git", None),
    ],
)
def test_permalinks_of_a_repository_are_recognised_by_its_address(url: str, web: str | None) -> None:
    settings = RepositorySettings(name="app", url=url)
    assert settings.web == web
    assert "pw" not in settings.shown_url


def test_objects_of_the_mirror_are_git_objects_and_nothing_is_checked_out(origin: Repo, tmp_path: Path) -> None:
    origin.commit({"a.py": "1\n"})
    mirror = mirror_of(origin.path.as_uri(), tmp_path)
    mirror.fetch()
    assert pygit2.Repository(str(mirror.path)).is_bare
    assert not list(mirror.path.rglob("a.py"))
