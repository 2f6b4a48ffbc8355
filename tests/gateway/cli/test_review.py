"""`check review` and `evaluate review` as a pipeline runs them: files in, files and exit codes out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.checks.review.judges import HALLUCINATION, VALID, said
from tests.checks.review.repos import Repo
from tests.servers.judge import Reply, completion, judge_server

ROOT = Path(__file__).parents[3]
CODE = "import json\n\n\ndef load(path):\n    with open(path) as file:\n        return json.load(file)\n"
REVIEW = json.dumps(
    {
        "findings": [
            {"file": "app.py", "line": 5, "title": "The file is never closed", "body": "It leaks.", "severity": "low"},
            {"file": "app.py", "line": 6, "title": "No limit on the size", "body": "It may be big.", "severity": "low"},
        ]
    },
    indent=1,
)


async def run(*arguments: str, stdin: str = "", **environ: str) -> tuple[int, str, str]:
    """A real process of the command line."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "OPENAI_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=ROOT, env={**inherited, "PYTHONPATH": str(ROOT), **environ},
    )  # fmt: skip
    out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def sceptic(body: dict[str, Any]) -> Reply:
    """A model that knows files opened by `with` are closed."""
    evaluation = HALLUCINATION if "never closed" in body["messages"][-1]["content"] else VALID
    return completion(json.dumps(said(evaluation, "with closes it", quotes=["with open(path) as file:"])))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "repo.git")
    repo.commit({"app.py": CODE})
    return repo


@pytest.mark.slow
async def test_a_pipeline_gets_the_review_without_its_hallucinations_and_exit_code_1(
    repo: Repo, tmp_path: Path
) -> None:
    (tmp_path / "review.json").write_text(REVIEW)
    async with judge_server([sceptic]) as server:
        common = ["check", "review", "--repository", str(repo.path), "--revision", "main", "-i"]
        judges = ["--judge", f"a=openai:m@{server.url}", "--judge", f"b-2=openai:m@{server.url}"]
        code, out, err = await run(
            *common, str(tmp_path / "review.json"), *judges, "--output", str(tmp_path / "out.json"), B_2_API_KEY="sk-b"
        )
        assert (code, err) == (1, "")
        left = json.loads((tmp_path / "out.json").read_text())
        assert [one["title"] for one in left["findings"]] == ["No limit on the size"]
        assert "✗ app.py:5 The file is never closed [hallucination; drop]" in out
        assert "with closes it" in out
        assert "Bearer sk-b" in {headers.get("Authorization") for headers in server.headers}

        code, out, err = await run(*common, "-", *judges, "-o", "-", "--mode", "annotate", "--exit-zero", stdin=REVIEW)
        assert code == 0
        assert len(json.loads(out)["findings"]) == 2
        assert "failed" in err

        code, out, _ = await run(*common, "-", *judges, "--json", stdin=REVIEW)
        report = json.loads(out)
        assert code == 1
        assert [issue["label"] for issue in report["issues"]] == ["hallucination", "valid"]
        assert report["issues"][0]["votes"][0]["quotes"] == ["with open(path) as file:"]
        assert "request" not in report["issues"][0]["calls"][0]


@pytest.mark.slow
async def test_a_pipeline_is_not_told_that_an_unchecked_review_is_fine(repo: Repo) -> None:
    async with judge_server([Reply("overloaded", status=400)]) as server:
        common = ["check", "review", "--repository", str(repo.path), "-i", "-", "--judge", f"a=openai:m@{server.url}"]
        code, out, _ = await run(*common, "--revision", "main", "--output", "-", stdin=REVIEW)
        assert (code, out) == (3, REVIEW)
        code, out, _ = await run(*common, "--revision", "f" * 40, stdin=REVIEW)
        assert code == 3
        assert "no_evidence" in out
        code, out, _ = await run(*common, "--revision", "main", stdin="Looks good to me.")
        assert code == 0
        assert "no_facts" in out


@pytest.mark.slow
async def test_a_wrong_judge_is_explained_before_anything_is_asked(repo: Repo, tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "upstreams: {one: {kind: openai, base_url: 'http://127.0.0.1:9/v1'}}\nroutes: {r: {upstream: one}}\n"
        "judges: {large: {kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}}\n"
    )
    common = ["check", "review", "--repository", str(repo.path), "--revision", "main", "-i", "-", "-c", str(config)]
    code, _, err = await run(*common, "--judge", "larg", stdin=REVIEW)
    assert code == 2
    assert "large" in err
    code, _, err = await run(*common, "--judge", "large", "--variant", "or", stdin=REVIEW)
    assert code != 0
    assert "needs 2 judges" in err


@pytest.mark.slow
async def test_a_folder_that_is_no_repository_is_a_slip_told_with_its_remedy(tmp_path: Path) -> None:
    place = ["check", "review", "--repository", str(tmp_path), "--revision", "main", "-i", "-"]
    code, out, err = await run(
        *place, "--judge", "one=openai:m@http://127.0.0.1:9/v1", stdin=REVIEW, ONE_API_KEY="none"
    )
    assert code == 2
    assert not out
    assert f"{tmp_path} cannot be opened as a git repository" in err
    assert "top folder of a git repository" in err


def labelled(folder: Path) -> None:
    diff = "@@ -1,2 +1,3 @@\n import os\n+import sys\n"
    claims = [
        ("`sys` is imported.", "valid"),
        ("`optparse` is imported.", "hallucination"),
        ("It may help.", "undetermined"),
    ]
    lines = [
        json.dumps({"id": f"c{number}", "diff": diff, "claim": claim, "label": label})
        for number, (claim, label) in enumerate(claims)
    ]
    (folder / "crscore_claims.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
async def test_an_evaluation_is_recorded_once_and_repeated_without_a_model(tmp_path: Path) -> None:
    labelled(tmp_path)

    def reply(body: dict[str, Any]) -> Reply:
        return completion(json.dumps(said(HALLUCINATION if "`optparse`" in body["messages"][-1]["content"] else VALID)))

    common = ["evaluate", "review", "--data", str(tmp_path), "--cassette", str(tmp_path / "tape.jsonl"), "--json"]
    async with judge_server([reply]) as server:
        judges = ["--judge", f"a=openai:m@{server.url}", "--judge", f"b=openai:m@{server.url}"]
        code, first, _ = await run(*common, *judges)
        asked = len(server.requests)
    assert code == 0
    assert asked == 4
    code, again, _ = await run(
        *common, "--judge", "a", "--judge", "b", "--replay", "--out", str(tmp_path / "r.json"), "--plot",
        str(tmp_path / "r.svg"),
    )  # fmt: skip
    assert (code, json.loads(again)) == (0, json.loads(first))
    report = json.loads((tmp_path / "r.json").read_text())["judged"]
    by_name = {one["name"]: one for one in report["variants"]}
    assert set(by_name) == {
        "single a", "single b", "or", "and", "multi_hop 1", "evidence name not in the diff",
    }  # fmt: skip
    assert by_name["or"]["recall"]["value"] == 1.0
    assert by_name["or"]["false_positive_rate"] == {"value": 0.0, "interval": [0.0, pytest.approx(0.79, abs=0.01)],
                                                    "hits": 0, "of": 1}  # fmt: skip
    assert by_name["multi_hop 1"]["base_rate"]["value"] == 0.5
    assert by_name["evidence name not in the diff"]["recall"]["hits"] == 1
    assert report["agreement"][0]["phi"] == 1.0
    ElementTree.parse(tmp_path / "r.svg")


@pytest.mark.slow
async def test_what_an_evaluation_lacks_is_said(tmp_path: Path) -> None:
    for arguments, told in [
        ([], "--data is missing"),
        (["--data", str(tmp_path)], "no labelled issues"),
    ]:
        code, _, err = await run("evaluate", "review", *arguments)
        assert code != 0
        assert told in err
