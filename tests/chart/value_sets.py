"""Values that people install with: from the least to everything switched on. No I/O."""

from __future__ import annotations

from typing import Any

DIGEST = "8f0bb0f57e0b1a0d3c9c2c1f5c7e8e0a4d5e6f708192a3b4c5d6e7f8091a2b3c"


def configuration(**sections: Any) -> dict[str, Any]:
    """A small gateway.yaml."""
    return {
        "upstreams": {
            "main": {
                "kind": "openai",
                "base_url": "https://llm.example.com/v1",
                "api_key_file": "/run/secrets/openai/api-key",
            }
        },
        "collections": {"docs": {"paths": ["/documents"]}},
        "routes": {
            "chat": {
                "upstream": "main",
                "model": "m",
                "retrieval": {"collections": ["docs"]},
                "check": {"kind": "facts"},
            }
        },
        "keys": [{"id": "app", "sha256": DIGEST}],
        **sections,
    }


LEAST: dict[str, Any] = {
    "replicaCount": 1,
    "config": configuration(),
    "database": {"existingSecret": "ledger"},
    "secretFiles": ["openai"],
}

USUAL: dict[str, Any] = {
    **LEAST,
    "replicaCount": 3,
    "serverSecret": {"existingSecret": "fences", "key": "seed"},
    "documents": {"existingClaim": "documents"},
    "image": {"repository": "registry.example.com/ai/grounding-gateway", "tag": "0.1.0"},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True},
        "dashboard": {"enabled": True},
    },
}

EVERYTHING: dict[str, Any] = {
    **USUAL,
    "fullnameOverride": "checked-chat",
    "maintenance": {"existingSecret": "ledger-owner", "months": 6},
    "image": {"repository": "registry.example.com/gateway", "digest": "sha256:" + DIGEST},
    "imagePullSecrets": [{"name": "registry"}],
    "config": configuration(
        server={
            "drain_seconds": 40,
            "max_body_bytes": 40_000_000,
            "tls": {"certificate": "/run/secrets/tls/tls.crt", "key": "/run/secrets/tls/tls.key"},
        }
    ),
    "secretFiles": ["openai", "tls"],
    "extraEnv": [{"name": "JUDGE_KEY", "valueFrom": {"secretKeyRef": {"name": "judge", "key": "key"}}}],
    "extraEnvFrom": [{"configMapRef": {"name": "proxy-settings"}}],
    "documents": {"configMap": "few-documents"},
    "persistence": {"size": "50Gi", "storageClass": "fast", "annotations": {"backup": "daily"}, "whenScaled": "Delete"},
    "service": {"type": "LoadBalancer", "port": 443, "annotations": {"scheme": "internal"}},
    "ingress": {"enabled": True, "className": "nginx", "host": "gateway.example.com", "tlsSecret": "gateway-tls"},
    "autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 9},
    "podDisruptionBudget": {"maxUnavailable": "30%"},
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"team": "apps"}}}],
        "egressPorts": [443],
        "extraEgress": [{"to": [{"podSelector": {"matchLabels": {"app": "vllm"}}}], "ports": [{"port": 8000}]}],
    },
    "serviceAccount": {"name": "gateway", "annotations": {"role": "reader"}},
    "podAnnotations": {"team": "ai"},
    "podLabels": {"cost-centre": "ai"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "serving",
    "initContainers": [{"name": "fetch", "image": "busybox", "command": ["true"]}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "terminationGracePeriodSeconds": 300,
}

LIVE: dict[str, Any] = {
    **LEAST,
    "onConfigChange": "live",
    "migrations": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "serviceAccount": {"create": False},
}

SETS: dict[str, dict[str, Any]] = {"least": LEAST, "usual": USUAL, "everything": EVERYTHING, "live": LIVE}
