"""Reads `gateway.yaml`: text to values to a validated `GatewayConfig`, or every problem at once with its place.

Knows files and pydantic; YAML, expansion, wording and cross references have modules of their own. The environment
comes in as a mapping, so nothing here depends on the process it runs in.
"""

from __future__ import annotations

import contextlib
import copy
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config import problems
from gateway.config.environment import with_derived
from gateway.config.explain import Explainer, conflict_keys
from gateway.config.model import GatewayConfig
from gateway.config.problems import Mark, Problem
from gateway.config.references import reference_problems, reference_warnings
from gateway.config.source import MAX_BYTES, Source, parse
from gateway.errors import ConfigError
from gateway.redact import redact

_SECRETS: Final = ("api_key", "database_url", "redis_url", "secret", "token", "deploy_key_passphrase")
_MAX_SECRET_BYTES: Final = 64_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a configuration gave: a configuration or problems, with warnings and the files that were read.

    `text` is what stood in the file, before expansion; it may hold secrets.
    """

    config: GatewayConfig | None
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    files: tuple[Path, ...]
    text: str = field(default="", repr=False)

    def require(self) -> GatewayConfig:
        """The configuration. Raises `ConfigError` with every problem."""
        if self.config is None:
            lines = tuple(str(problem) for problem in self.problems)
            raise ConfigError("\n".join(lines), problems=lines)
        return self.config


def load(path: Path, environ: Mapping[str, str]) -> GatewayConfig:
    """The configuration in a file. Raises `ConfigError` with every problem found, each with its place and a remedy."""
    return read(path, environ).require()


def read(path: Path, environ: Mapping[str, str]) -> Reading:
    """Read a configuration file. Never raises for what stands in the file or for the file's absence."""
    text = _text_of(path)
    if isinstance(text, Problem):
        return Reading(None, (text,), (), (path,))
    return examine(text, path, environ)


def examine(text: str, path: Path, environ: Mapping[str, str]) -> Reading:
    """Read a configuration from its text, as if it stood in `path`."""
    source = parse(text, str(path), with_derived(environ))
    files = _Files(path)
    config = None
    if not source.broken:
        files.put_secrets(source)
        config = _validate(source, files)
        for where, what in reference_problems(source):
            source.problem(where, what)
    if source.problems:
        found = sorted(
            set(source.problems), key=lambda problem: (problem.mark or Mark(0, 0), problem.key, problem.text)
        )
        return Reading(None, tuple(found), tuple(files.warnings), tuple(files.seen))
    assert config is not None
    return Reading(config, (), (*files.warnings, *reference_warnings(config)), tuple(files.seen), text)


def _text_of(path: Path) -> str | Problem:
    """A file's text, or why there is none."""
    file = str(path)
    try:
        if path.is_dir():
            return Problem(file, None, "", "is a folder; name the file, e.g. gateway.yaml")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Problem(file, None, "", "does not exist; see examples/quickstart/gateway.yaml for one that runs")
    except (OSError, ValueError) as error:
        return Problem(file, None, "", f"cannot be read ({_reason(error)}); check its path and permissions")
    if len(data) > MAX_BYTES:
        return Problem(file, None, "", f"is larger than {MAX_BYTES} bytes; this is no gateway configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        mark = Mark(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        return Problem(file, mark, "", "is not UTF-8 here; save the file as UTF-8")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class _Files:
    """The file system as seen from the configuration file: relative paths, readable files, secrets in files."""

    def __init__(self, path: Path) -> None:
        self._folder = path.absolute().parent
        self.seen: list[Path] = [path]
        self.warnings: list[str] = []

    def resolve(self, path: Path) -> Path:
        # Without such a user or a home the path is taken as written, and its absence reported where it is used.
        with contextlib.suppress(RuntimeError):
            path = path.expanduser()
        return Path(os.path.normpath(self._folder / path))

    def unreadable(self, path: Path) -> str:
        try:
            with path.open("rb"):
                return ""
        except (OSError, ValueError) as error:
            return f"{redact(str(path))} {self._why(error)}"

    def _why(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"does not exist; relative paths start at {self._folder}"
        return f"cannot be read ({_reason(error)}); check its path and permissions"

    def put_secrets(self, source: Source) -> None:
        """Put what secret files hold beside their keys, e.g. into `api_key` for `api_key_file`."""
        for path, section in _secret_sections(source.data):
            for key in _SECRETS:
                name = section.get(f"{key}_file")
                if not isinstance(name, str) or not name:
                    continue
                where = (*path, f"{key}_file")
                if section.get(key) is not None:
                    source.problem(where, f"is given beside {key}; keep one of the two")
                    continue
                try:
                    section[key] = self._secret(name, problems.dotted(where))
                except (OSError, ValueError) as error:
                    # Not the name: somebody may have put the secret itself there.
                    source.problem(where, f"the file {self._why(error)}")

    def _secret(self, name: str, key: str) -> str:
        """A secret file's text without its line end. Raises `OSError` or `ValueError`."""
        path = self.resolve(Path(name))
        self.seen.append(path)
        with path.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(_MAX_SECRET_BYTES + 1)
        try:
            secret = data.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            secret = ""
        if not secret or len(data) > _MAX_SECRET_BYTES or not secret.isprintable():
            raise ValueError("it must hold the secret on one line, and nothing else")
        if stat.S_IMODE(mode) & stat.S_IROTH:
            self.warnings.append(f"{key}: {path} can be read by every user of this machine; chmod 600 {path}")
        return secret


def _secret_sections(data: Mapping[str, Any]) -> Iterator[tuple[problems.Path, dict[str, Any]]]:
    """Sections whose secrets may come from files."""
    for group in ("upstreams", "judges", "collections", "repositories"):
        named = data.get(group)
        for name, section in named.items() if isinstance(named, dict) else ():
            if group == "collections" and isinstance(section, dict):
                section = section.get("encoder")
                path: problems.Path = (group, name, "encoder")
            else:
                path = (group, name)
            if isinstance(section, dict):
                yield path, section
    routes = data.get("routes")
    for name, route in routes.items() if isinstance(routes, dict) else ():
        retrieval = route.get("retrieval") if isinstance(route, dict) else None
        rerank = retrieval.get("rerank") if isinstance(retrieval, dict) else None
        if isinstance(rerank, dict):
            yield ("routes", name, "retrieval", "rerank"), rerank
    for group in ("access", "ledger", "server"):
        section = data.get(group)
        if isinstance(section, dict):
            yield (group,), section


def _validate(source: Source, files: _Files) -> GatewayConfig | None:
    """Validate, and note every problem.

    A section's own combinations are only checked once its values are right. So a second round looks at the
    configuration without the values found wrong, and reports combinations that hold none of them.
    """
    explainer = Explainer(source, GatewayConfig)
    try:
        return GatewayConfig.model_validate(source.data, context=files)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)
    wrong: set[problems.Path] = set()
    missing_values = {problem.key for problem in source.problems}
    for detail in first:
        for path, text in explainer.explain(detail):
            wrong.add(path)
            # A value whose expansion failed is empty by now; the first problem says why.
            if problems.dotted(path) not in missing_values:
                source.problem(path, text)
    rest = copy.deepcopy(source.data)
    for path in wrong:
        _drop(rest, path)
    try:
        GatewayConfig.model_validate(rest, context=files)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            _note_second(source, explainer, detail, wrong)
    return None


def _note_second(source: Source, explainer: Explainer, detail: ErrorDetails, wrong: set[problems.Path]) -> None:
    if detail["type"] != "impossible":
        return
    section = explainer.section(detail["loc"])
    if not any((*section, key) in wrong for key in conflict_keys(detail)):
        for path, text in explainer.explain(detail):
            source.problem(path, text)


def _drop(data: Any, path: problems.Path) -> None:
    """Remove the value at a path; what is not there, or is a list's item, stays."""
    for part in path[:-1]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(data, dict) and path:
        data.pop(path[-1], None)
