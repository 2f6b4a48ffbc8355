"""Servers under measurement: started as processes of their own, watched through /proc, stopped at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
_START_S = 900.0
_STOP_S = 40.0


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """One server process. Its output goes to `log`."""

    def __init__(self, arguments: Sequence[str], log: Path, ready_url: str) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments], cwd=ROOT, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )
        self.watched = psutil.Process(self._process.pid)
        self._await(ready_url)

    def _await(self, url: str) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise SystemExit(f"a server ended with {self._process.returncode}:\n{self._log.read_text()[-3000:]}")
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise SystemExit(f"a server did not get ready:\n{self._log.read_text()[-3000:]}")

    def cpu_s(self) -> float:
        """Seconds of processor time so far, all threads."""
        return cpu_s(self.watched)

    def rss_mb(self) -> float:
        """Resident memory, megabytes."""
        return float(self.watched.memory_info().rss) / 1e6

    def log_lines(self, marker: str) -> int:
        """Lines of the output that hold `marker`."""
        with self._log.open("rb") as lines:
            return sum(marker.encode() in line for line in lines)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def cpu_s(process: psutil.Process) -> float:
    """User and system time of a process, seconds; 0 when it has ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def postmaster_under(directory: Path) -> psutil.Process | None:
    """The Postgres that runs on data under `directory`."""
    for file in directory.rglob("postmaster.pid"):
        with contextlib.suppress(psutil.NoSuchProcess):  # a killed server leaves the file
            return psutil.Process(int(file.read_text().split()[0]))
    return None


def family_cpu_s(process: psutil.Process | None) -> float:
    """Processor time of a process and its children, ended ones that it waited for included."""
    if process is None:
        return 0.0
    times = process.cpu_times()
    total = float(times.user + times.system + times.children_user + times.children_system)
    return total + sum(cpu_s(child) for child in process.children(recursive=True))


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": sys.version.split()[0],
    }
