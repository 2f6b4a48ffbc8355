"""The command line: exit codes, what goes to which stream, JSON, and what never shows."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from checks.errors import ModelFileError
from gateway import __version__
from gateway.access.keys import Keyring, key_digest
from gateway.cli.output import emit, fail_with, note, printable
from gateway.config.model import KeyConfig
from gateway.errors import (
    ConfigError,
    GatewayError,
    LedgerUnavailableError,
    NotFoundError,
    OverloadedError,
    RequestError,
    UpstreamTimeoutError,
)
from retrieval.errors import LoadError
from tests.gateway.config.files import MINIMAL

ROOT = Path(__file__).parents[3]
BROKEN = MINIMAL.replace("upstream: real", "upstream: rael").replace("    model: m\n", "    modle: m\n")


def run(
    *arguments: str, cwd: Path = ROOT, stdin: str = "", environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A real process of the command line, with no configuration in its environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT), **(environ or {})},
        check=False,
    )


def test_a_valid_configuration_is_told_on_standard_output_with_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(MINIMAL)
    found = run("config", "check", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("gateway.yaml: valid (version ")
    assert "support -> real" in found.stdout


def test_every_problem_is_told_on_standard_error_with_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(BROKEN)
    found = run("config", "check", str(path))
    assert (found.returncode, found.stdout) == (2, "")
    lines = found.stderr.splitlines()
    assert lines[0].startswith(f"{path}:10:5 routes.support.upstream: names an upstream `rael`")
    assert lines[1].startswith(f"{path}:11:5 routes.support.modle: unknown key; did you mean `model`?")
    assert lines[2] == f"error: {path} has 2 problems"


def test_programs_get_the_problems_as_json(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(BROKEN)
    found = run("config", "check", "--json", environ={"GATEWAY_CONFIG": str(path)})
    assert found.returncode == 2
    report = json.loads(found.stdout)
    assert report["valid"] is False
    first = report["problems"][0]
    assert (first["file"], first["line"], first["column"], first["key"]) == (
        str(path),
        10,
        5,
        "routes.support.upstream",
    )
    path.write_text(MINIMAL)
    report = json.loads(run("config", "check", "--json", str(path)).stdout)
    assert report["valid"]
    assert len(report["version"]) == 12


def test_without_a_configuration_the_ways_to_give_one_are_named(tmp_path: Path) -> None:
    for command in (["config", "check"], ["ask", "x"], ["verdicts", "list"], ["serve"], ["ingest"], ["migrate"]):
        found = run(*command, cwd=tmp_path)
        assert (found.returncode, found.stdout) == (2, ""), command
        assert "pass --config FILE, set GATEWAY_CONFIG" in found.stderr


def test_editors_get_the_schema() -> None:
    found = run("config", "schema")
    assert found.returncode == 0
    assert json.loads(found.stdout)["title"] == "gateway.yaml"


def test_a_wrong_command_line_is_exit_code_2() -> None:
    found = run("frobnicate")
    assert found.returncode == 2
    assert "No such command 'frobnicate'" in found.stderr


def test_help_and_version_need_nothing(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"grounding-gateway {__version__}\n"
    commands = run("--help", cwd=tmp_path).stdout
    for name in ("serve", "config", "ingest", "ask", "check", "verdicts", "keys", "migrate"):
        assert f"  {name} " in commands


def test_a_configuration_is_checked_without_loading_the_server_or_the_models() -> None:
    code = (
        "import sys, gateway.cli as cli\n"
        "sys.argv = ['g', 'config', 'check', 'examples/quickstart/full.yaml']\n"
        "try:\n    cli.main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'litestar', 'aiohttp', 'sqlalchemy', 'numpy', 'onnxruntime', 'faiss', 'openai', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert found.stderr == "[]\n"


def test_a_new_key_is_shown_once_with_an_entry_that_lets_it_in() -> None:
    found = run("keys", "hash", "--id", "ci-bot")
    assert found.returncode == 0
    key = found.stdout.splitlines()[0]
    section = yaml.safe_load(found.stdout[found.stdout.index("keys:") :])["keys"]
    assert section == [{"id": "ci-bot", "sha256": key_digest(key), "routes": ["*"]}]
    principal = Keyring([KeyConfig(**section[0])], loopback=False).identify({"x-api-key": key})
    assert principal.key_id == "ci-bot"


def test_an_existing_key_is_hashed_and_not_said_back() -> None:
    key = "an-existing-key-of-24-chars"
    found = run("keys", "hash", "--stdin", "--json", stdin=f"{key}\n")
    assert json.loads(found.stdout) == {"entry": {"id": "client", "sha256": key_digest(key), "routes": ["*"]}}
    assert key not in found.stdout + found.stderr


@pytest.mark.parametrize("key", ["", "short", "x" * 19, "with spaces in it, long enough", "ключ" * 10])
def test_a_key_that_could_be_guessed_is_refused(key: str) -> None:
    found = run("keys", "hash", "--stdin", stdin=key)
    assert (found.returncode, found.stdout) == (2, "")
    assert "hint: leave --stdin out" in found.stderr


def test_an_id_that_the_configuration_would_refuse_is_refused_here() -> None:
    assert run("keys", "hash", "--id", "My Key").returncode == 2


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ConfigError("two", problems=("a:1:1 x: y", "b:2:2 z: w")), 2, "a:1:1 x: y\nb:2:2 z: w\nerror: the"),
        (ConfigError("one sentence"), 2, "one sentence\nerror: the configuration has 1 problem"),
        (RequestError("wrong"), 2, "error: wrong"),
        (NotFoundError("no such exchange"), 1, "error: no such exchange"),
        (OverloadedError("full"), 3, "error: full"),
        (LedgerUnavailableError("Postgres is away"), 3, "error: Postgres is away"),
        (UpstreamTimeoutError("slow"), 3, "error: slow"),
        (GatewayError("other"), 1, "error: other"),
        (LoadError("broken PDF", hint="save it anew"), 1, "error: broken PDF\nhint: save it anew"),
        (ModelFileError("no model", hint="make models"), 1, "error: no model\nhint: make models"),
        (OSError(errno.EADDRINUSE, "Address already in use"), 3, "hint: another process listens there"),
        (OSError(errno.ENOSPC, "No space left", "/data"), 3, "error: /data: No space left\nhint: the disk is full"),
        (OSError(errno.EROFS, "Read-only file system"), 3, "hint: the file system is read-only"),
    ],
)
def test_scripts_can_tell_failures_apart(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        fail_with(error)
    assert ended.value.code == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err


def test_a_mistake_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        fail_with(ZeroDivisionError())


def test_data_is_json_on_request_and_whole_lines_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table = (("id", "query"), [("ex_1", "a\tlong\nquestion " + "x" * 300)])
    emit({"data": ["ä"]}, as_json=True, table=table, text="more")
    assert json.loads(capsys.readouterr().out) == {"data": ["ä"]}
    emit({}, as_json=False, table=table, text="more: 1")
    assert capsys.readouterr().out == f"id\tquery\nex_1\ta long question {'x' * 300}\nmore: 1\n"
    emit({"a": 1}, as_json=False)
    assert json.loads(capsys.readouterr().out) == {"a": 1}


def test_a_document_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[2Jb\x07\x9bc\r") == "a[2Jbc"
    assert printable(None) == ""
    emit({}, as_json=False, text="\x1b]0;title\x07first\n  second")
    assert capsys.readouterr().out == "]0;titlefirst\n  second\n"


def test_no_sign_of_a_terminals_own_language_leaves_as_json_or_as_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"title": "\x1b[2J\x9b31m\x7f"}, as_json=True)
    note("cannot read \x1b[2J\x9b31m.md\nas it is")
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"title": "\x1b[2J\x9b31m\x7f"}
    assert {"\x1b", "\x9b", "\x7f"}.isdisjoint(shown.out + shown.err)
    assert shown.err == "cannot read [2J31m.md\nas it is\n"


def test_a_file_name_can_neither_stop_an_ingest_nor_drive_the_terminal(tmp_path: Path) -> None:
    odd = tmp_path / "docs" / "["
    odd.mkdir(parents=True)
    (odd / "red] \x1b[31m.pdf").write_bytes(b"no PDF")
    (odd / "ox.md").write_text("The ox weighs 900 kg.")
    settings = yaml.safe_load(MINIMAL)
    settings["collections"] = {"docs": {"paths": ["docs"], "encoder": {"kind": "hash"}}}
    settings["routes"]["support"]["retrieval"] = {"collections": ["docs"]}
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(settings))
    found = run("ingest", cwd=tmp_path)
    assert "collection docs: 1 new" in found.stdout + found.stderr
    assert "[/red] [31m.pdf" in (found.stdout + found.stderr).replace("\n", "")
    assert "\x1b" not in found.stdout + found.stderr
