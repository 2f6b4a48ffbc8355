"""A pod as a kubelet runs it, without containers: what `helm template` rendered, as processes of this machine.

The image's entry point with the rendered arguments, the rendered environment, volumes as folders, the rendered probes
and preStop hook, the pod's own address (one of 127.0.0.0/8). A process sees this machine's file system, so paths of
mounts are replaced by folders wherever they stand: in ConfigMaps and in the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.chart.helm import ROOT, Manifest, one

_POLL_S = 0.1
_START_S = 300.0


def entrypoint() -> list[str]:
    """The command of the image's Dockerfile; `tini` only reaps and passes signals on, and there is a reaper here."""
    (words,) = re.findall(r"^ENTRYPOINT (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    command = list(json.loads(words))
    assert command[:2] == ["tini", "--"]
    return [str(Path(sys.executable).with_name(command[2])), *command[3:]]


class Pod:
    """One pod of `template`. `folder` outlives it: claims lie there, as disks do. `secrets` are the cluster's."""

    def __init__(
        self,
        name: str,
        address: str,
        template: Manifest,
        manifests: list[Manifest],
        secrets: Mapping[str, Mapping[str, str]],
        folder: Path,
    ) -> None:
        self.name = name
        self.address = address
        self.ready = False
        self.log = folder / f"{name}.{os.urandom(3).hex()}.log"
        self._spec = template["spec"]
        (self._container,) = self._spec["containers"]
        self._manifests = manifests
        self._secrets = secrets
        self._folder = folder / name
        self._process: asyncio.subprocess.Process | None = None
        self._mounts: dict[str, Path] = {}

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def base_url(self) -> str:
        return f"http://{self.address}:{self._container['ports'][0]['containerPort']}"

    # -- volumes and environment ---------------------------------------------------------------------------------------

    def _make_volumes(self) -> None:
        sources = {volume["name"]: volume for volume in self._spec["volumes"]}
        for mount in self._container["volumeMounts"]:
            place = self._folder / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            self._mounts[mount["mountPath"]] = place
        for mount in self._container["volumeMounts"]:
            source = sources.get(mount["name"], {})  # none: a claim, which keeps what it has
            place = self._mounts[mount["mountPath"]]
            if "configMap" in source:
                data = one(self._manifests, "ConfigMap", source["configMap"]["name"])["data"]
                for key, text in data.items():
                    (place / key).write_text(self._here(text))
            elif "secret" in source:
                for key, text in self._secrets[source["secret"]["secretName"]].items():
                    file = place / key
                    file.unlink(missing_ok=True)
                    file.write_text(text)
                    file.chmod(source["secret"]["defaultMode"])

    def _here(self, text: str) -> str:
        """A text with this machine's folders in place of mounts."""
        paths = "|".join(re.escape(path) for path in sorted(self._mounts, key=len, reverse=True))
        return re.sub(rf"(?:{paths})(?![\w-])", lambda found: str(self._mounts[found[0]]), text)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "HOME")}
        fields = {"metadata.name": self.name, "status.podIP": self.address}
        for variable in self._container["env"]:
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                value = self._secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
            else:
                value = self._here(variable["value"])
            kept[variable["name"]] = value
        return {**kept, "TMPDIR": str(self._mounts["/tmp"])}

    # -- life ----------------------------------------------------------------------------------------------------------

    async def _begin(self) -> asyncio.subprocess.Process:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._make_volumes()
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *entrypoint(),
                *self._container["args"],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )
        return self._process

    async def run_to_end(self) -> int:
        """A job's pod: its exit code."""
        return await (await self._begin()).wait()

    async def start(self) -> None:
        """Begin, and wait as the kubelet does: for the startup probe, then for the readiness probe."""
        await self._begin()
        for name in ("startupProbe", "readinessProbe"):
            async with asyncio.timeout(_START_S):
                while not await self.passes(name):
                    assert self.running, f"{self.name} ended:\n{self.output}"
                    await asyncio.sleep(_POLL_S)
        self.ready = True

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def passes(self, name: str) -> bool:
        """One try of a probe."""
        probe = self._container[name]
        get = probe["httpGet"]
        assert get["port"] == self._container["ports"][0]["name"]
        context = ssl.create_default_context() if get["scheme"] == "HTTPS" else False
        with contextlib.suppress(httpx.TransportError):
            async with httpx.AsyncClient(timeout=probe["timeoutSeconds"], verify=context) as http:
                response = await http.get(self.base_url + get["path"])
                return 200 <= response.status_code < 400
        return False

    async def pre_stop(self) -> None:
        """The hook that runs before the signal."""
        command = self._container["lifecycle"]["preStop"]["exec"]["command"]
        process = await asyncio.create_subprocess_exec(*command)
        assert await process.wait() == 0

    async def stop(self) -> int:
        """SIGTERM; the exit code. Fails when it would have been killed at the end of its grace."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(self._spec["terminationGracePeriodSeconds"]):
            return await self._process.wait()

    def kill(self) -> None:
        """For the end of a test that failed."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
