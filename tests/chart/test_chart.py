"""The chart renders what a cluster accepts and the gateway reads, keeps pods restricted, and refuses wrong values."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from gateway.config.load import examine
from tests.chart.helm import CHART, Helm, Manifest, one, pods
from tests.chart.value_sets import EVERYTHING, LEAST, LIVE, SETS, USUAL, configuration

KUBERNETES = ("1.27", "1.37")


def changed(values: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Values with others in place of some."""
    return {**copy.deepcopy(values), **parts}


@pytest.fixture(params=sorted(SETS))
def rendered(request: pytest.FixtureRequest, helm: Helm) -> list[Manifest]:
    return helm.template(SETS[request.param])


@pytest.mark.parametrize("name", sorted(SETS))
def test_lint_finds_nothing_to_say_about_the_chart(helm: Helm, name: str) -> None:
    done = helm.run("lint", str(CHART), "--strict", values=SETS[name])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout
    assert "[ERROR]" not in done.stdout


def test_a_cluster_accepts_every_object_and_knows_every_field(rendered: list[Manifest]) -> None:
    for manifest in rendered:
        if manifest["apiVersion"].startswith("monitoring.coreos.com/"):
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_pods_meet_the_restricted_security_standard_over_a_read_only_root(rendered: list[Manifest]) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""
    for name, pod in pods(rendered).items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
        assert all("hostPath" not in volume for volume in spec["volumes"])
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_every_mount_has_its_volume_and_every_volume_its_source(rendered: list[Manifest]) -> None:
    configs = {m["metadata"]["name"] for m in rendered if m["kind"] == "ConfigMap"} | {"few-documents"}
    claims = {claim["metadata"]["name"] for claim in one(rendered, "StatefulSet")["spec"]["volumeClaimTemplates"]}
    for pod in pods(rendered).values():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert len(volumes) == len(pod["spec"]["volumes"])
        for volume in volumes.values():
            assert volume.get("configMap", {}).get("name") in configs | {None}
        for container in pod["spec"]["containers"]:
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(set(paths)) == len(paths)
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys() | claims


def gateway_yaml(manifests: list[Manifest]) -> str:
    return str(one(manifests, "ConfigMap", one(manifests, "StatefulSet")["metadata"]["name"])["data"]["gateway.yaml"])


@pytest.mark.parametrize("name", sorted(SETS))
def test_the_gateway_reads_the_configuration_that_the_chart_writes(helm: Helm, name: str, tmp_path: Path) -> None:
    """With the pod's files in place of the container's, as they would be mounted there."""
    manifests = helm.template(SETS[name])
    text = gateway_yaml(manifests).replace("/run/secrets", str(tmp_path))
    for secret, key in (
        ("ledger", "url"),
        ("fences", "seed"),
        ("openai", "api-key"),
        ("tls", "tls.crt"),
        ("tls", "tls.key"),
    ):
        file = tmp_path / secret / key
        file.parent.mkdir(exist_ok=True)
        file.write_text("postgresql://u:p@db/ledger" if key == "url" else "something")
    reading = examine(text, tmp_path / "gateway.yaml", {})
    assert reading.problems == ()
    assert reading.config is not None
    spec = one(manifests, "StatefulSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert str(reading.config.data_dir) in mounts
    assert container["ports"][0]["containerPort"] == reading.config.server.port
    # Requests, then checks that go on without their clients, then the spool: a kill before would cut them off.
    assert spec["terminationGracePeriodSeconds"] >= 2 * reading.config.server.drain_seconds + 10
    for migration in (m for m in manifests if m["metadata"]["name"].endswith(("-migrate", "-maintenance"))):
        other_role = migration["data"]["gateway.yaml"].replace("/run/secrets/ledger-owner/", "/run/secrets/ledger/")
        assert other_role == gateway_yaml(manifests)


def test_records_that_wait_for_postgres_survive_pods_and_the_end_of_the_release(helm: Helm) -> None:
    stateful = one(helm.template(USUAL), "StatefulSet")["spec"]
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (claim,) = stateful["volumeClaimTemplates"]
    mounts = {m["name"]: m["mountPath"] for m in stateful["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == "/var/lib/grounding-gateway"


def test_a_changed_configuration_restarts_pods_unless_they_are_to_read_it_in_place(helm: Helm) -> None:
    def annotations(values: dict[str, Any]) -> dict[str, str]:
        return dict(one(helm.template(values), "StatefulSet")["spec"]["template"]["metadata"]["annotations"])

    other = configuration(server={"drain_seconds": 5})
    assert annotations(LEAST)["checksum/config"] == annotations(LEAST)["checksum/config"]
    assert annotations(LEAST)["checksum/config"] != annotations(changed(LEAST, config=other))["checksum/config"]
    assert annotations(LIVE) == annotations(changed(LIVE, config=other))


def test_the_service_sends_to_gateways_only_and_the_network_policy_covers_the_jobs_too(helm: Helm) -> None:
    manifests = helm.template(USUAL)
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(manifests).items()}

    def chosen(selector: dict[str, str]) -> set[str]:
        return {name for name, own in labels.items() if selector.items() <= own.items()}

    gateways = {m["metadata"]["name"] for m in manifests if m["kind"] == "StatefulSet"}
    for service in (m for m in manifests if m["kind"] == "Service"):
        assert chosen(service["spec"]["selector"]) == gateways
    assert chosen(one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]) == gateways
    assert chosen(one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]) == set(labels)
    monitored = one(manifests, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    watched = [m for m in manifests if m["kind"] == "Service" and monitored.items() <= m["metadata"]["labels"].items()]
    assert [m["metadata"]["name"] for m in watched] == ["gw-grounding-gateway"]  # each pod is scraped once


def test_the_schema_is_migrated_before_pods_change_and_finished_after(helm: Helm) -> None:
    manifests = helm.template(USUAL)
    jobs = {m["metadata"]["annotations"]["helm.sh/hook"]: m for m in manifests if m["kind"] == "Job"}
    assert jobs.keys() == {"pre-install,pre-upgrade", "post-install,post-upgrade"}
    args = {hook: job["spec"]["template"]["spec"]["containers"][0]["args"] for hook, job in jobs.items()}
    assert args["pre-install,pre-upgrade"] == ["migrate", "--phase", "pre"]
    assert args["post-install,post-upgrade"] == ["migrate", "--phase", "all"]
    assert yaml.safe_load(gateway_yaml(manifests))["ledger"]["migrate"] == "never"
    # What the first job mounts exists by then: nothing of the release itself does.
    first = jobs["pre-install,pre-upgrade"]
    own = [m for m in manifests if m["kind"] == "ConfigMap" and "helm.sh/hook" in m["metadata"].get("annotations", {})]
    (volume,) = (v for v in first["spec"]["template"]["spec"]["volumes"] if v["name"] == "config")
    assert [m["metadata"]["name"] for m in own] == [volume["configMap"]["name"]]
    assert int(own[0]["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0
    assert "serviceAccountName" not in first["spec"]["template"]["spec"]
    # Without the jobs the gateways do it themselves.
    assert "migrate" not in yaml.safe_load(gateway_yaml(helm.template(LIVE)))["ledger"]


def test_only_jobs_see_the_credentials_of_the_role_that_may_change_tables(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    seen = {
        name: {volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume}
        for name, pod in pods(manifests).items()
    }
    assert "ledger-owner" not in seen["checked-chat"]
    assert "ledger" in seen["checked-chat"]
    jobs = {"checked-chat-migrate-pre", "checked-chat-migrate-all", "checked-chat-maintain"}
    assert seen.keys() - {"checked-chat"} == jobs
    assert all("ledger-owner" in seen[job] and "ledger" not in seen[job] for job in jobs)
    assert yaml.safe_load(gateway_yaml(manifests))["ledger"]["maintain"] is False
    cron = one(manifests, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert cron["containers"][0]["args"] == ["maintain", "--months", "6"]


def test_probes_speak_what_the_gateway_speaks(helm: Helm) -> None:
    def probes(values: dict[str, Any]) -> list[dict[str, Any]]:
        container = one(helm.template(values), "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
        return [container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]

    assert [p["httpGet"]["path"] for p in probes(LEAST)] == ["/healthz", "/healthz", "/readyz"]
    assert {p["httpGet"]["scheme"] for p in probes(LEAST)} == {"HTTP"}
    assert {p["httpGet"]["scheme"] for p in probes(EVERYTHING)} == {"HTTPS"}
    tls = {
        "certificate": "/run/secrets/tls/tls.crt",
        "key": "/run/secrets/tls/tls.key",
        "client_ca": "/run/secrets/tls/ca",
    }
    mutual = changed(EVERYTHING, config=configuration(server={"tls": tls}))
    assert all("httpGet" not in p and p["tcpSocket"] == {"port": "http"} for p in probes(mutual))


def test_autoscaling_decides_on_the_number_of_pods_alone(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    assert "replicas" not in one(manifests, "StatefulSet")["spec"]
    target = one(manifests, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("StatefulSet", one(manifests, "StatefulSet")["metadata"]["name"])


def test_a_long_release_name_still_gives_names_that_a_cluster_takes(helm: Helm) -> None:
    for manifest in helm.template(USUAL, release="a" * 53):
        assert len(manifest["metadata"]["name"]) <= 52
        assert not manifest["metadata"]["name"].endswith("-")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a misspelt key": ({"replicas": 2}, "replicas"),
    "a misspelt key below": ({"persistence": {"sise": "1Gi"}}, "sise"),
    "no configuration": ({"config": {}}, "upstreams"),
    "no route": ({"config": {**configuration(), "routes": {}}}, "routes"),
    "a data directory of one's own": ({"config": configuration(data_dir="/data")}, "data_dir"),
    "a password in the configuration": ({"config": configuration(ledger={"database_url": "u:p@h/d"})}, "database_url"),
    "a secret in the configuration": ({"config": configuration(server={"secret": "s"})}, "secret"),
    "a size that is none": ({"persistence": {"size": "much"}}, "size"),
    "a port that needs rights": ({"containerPort": 80}, "containerPort"),
    "a name that is none": ({"secretFiles": ["Not_A_Name"]}, "secretFiles"),
    "no replicas": ({"replicaCount": 0}, "replicaCount"),
    "a wrong word": ({"onConfigChange": "sometimes"}, "onConfigChange"),
    "no database": ({"database": {"existingSecret": ""}}, "database.existingSecret is missing"),
    "replicas without a shared seed": ({"replicaCount": 2}, "serverSecret.existingSecret is missing"),
    "scaling without a shared seed": ({"autoscaling": {"enabled": True}}, "serverSecret.existingSecret is missing"),
    "two sources of documents": ({"documents": {"existingClaim": "a", "configMap": "b"}}, "keep one of the two"),
    "an address nobody reaches": ({"config": configuration(server={"host": "127.0.0.1"})}, "loopback"),
    "a drain of unknown length": (
        {"config": configuration(server={"drain_seconds": "${DRAIN}"})},
        "set terminationGracePeriodSeconds",
    ),
    "an ingress for no host": ({"ingress": {"enabled": True}}, "ingress.host"),
    "a largest number below the least": (
        {"serverSecret": {"existingSecret": "s"}, "autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 2}},
        "minReplicas is above",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_wrong_values_are_refused_with_their_name_before_anything_is_installed(helm: Helm, what: str) -> None:
    parts, said = REFUSED[what]
    assert said in helm.refusal(changed(LEAST, **parts))
