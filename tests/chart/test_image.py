"""The image that the Dockerfile makes is the one that the chart runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chart.helm import Helm, one
from tests.chart.value_sets import LEAST

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LAST_STAGE = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]


def test_the_image_and_the_pods_agree_on_user_configuration_and_data(helm: Helm) -> None:
    pod = one(helm.template(LEAST), "StatefulSet")["spec"]["template"]["spec"]
    user = pod["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}\n" in LAST_STAGE
    (container,) = pod["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert f"GATEWAY_CONFIG={environment['GATEWAY_CONFIG']} " in LAST_STAGE
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    (data,) = re.findall(r"GATEWAY_DATA_DIR=(\S+)", LAST_STAGE)
    assert {data, "/tmp", str(Path(environment["GATEWAY_CONFIG"] or "").parent)} <= paths
    # The pod gives arguments only, so that the image's entry point stays the first process and passes signals on.
    assert "command" not in container
    assert re.search(r'^ENTRYPOINT \["tini", "--", "grounding-gateway"\]$', LAST_STAGE, re.MULTILINE)


def test_only_what_the_lock_file_names_by_digest_comes_into_the_image() -> None:
    installs = re.findall(r"pip install (.*)", DOCKERFILE)
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0]
    assert "--no-index" in installs[1]


def test_everything_that_is_copied_exists_and_passes_the_ignore_file() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {
        source
        for words in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for source in words.split()
    }
    assert copied >= {"requirements.lock", "pyproject.toml", "gateway", "retrieval", "checks", "migrations"}
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored
    assert "*" in ignored
