"""A configuration told to others: the JSON Schema for editors, and a version that names a configuration. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from gateway.config.model import GatewayConfig
from gateway.redact import redact

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Final = {"type": "string", "pattern": r"\$\{"}
# What may hold secrets, and what says where and how the process runs instead of how an answer comes about.
_LEFT_OUT: Final[Any] = {
    "data_dir": True,
    "server": True,
    "ledger": True,
    "telemetry": True,
    "access": True,
    "prices": True,
    "upstreams": {"__all__": {"api_key", "api_key_file", "headers", "proxy", "tls"}},
    "judges": {"__all__": {"api_key", "api_key_file", "proxy", "tls"}},
    "collections": {"__all__": {"encoder": {"api_key", "api_key_file"}}},
    "repositories": {
        "__all__": {
            "token",
            "token_file",
            "deploy_key_passphrase",
            "deploy_key_passphrase_file",
            "deploy_key",
            "deploy_key_file",
            "github_app",
            "proxy",
            "ca_bundle",
        }
    },
    "routes": {
        "__all__": {
            "retrieval": {"rerank": {"api_key", "api_key_file"}},
            "check": {"classifier": {"api_key", "api_key_file"}},
        }
    },
    "keys": {"__all__": {"sha256", "expires", "limits", "budget"}},
}


def schema() -> dict[str, Any]:
    """The JSON Schema of `gateway.yaml`: every key with its description, its values, and nothing else allowed.

    Where a number or one of a few words stands, `${NAME}` may stand as well.
    """
    document = GatewayConfig.model_json_schema()
    document = {"$schema": _DIALECT, **document, "title": "gateway.yaml"}
    _admit_references(document)
    return document


def version(config: GatewayConfig) -> str:
    """Twelve hexadecimal digits, the same for configurations that answer alike. Holds nothing of any secret."""
    values = config.model_dump(mode="json", exclude=_LEFT_OUT)
    text = redact(json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _admit_references(node: Any) -> None:
    """Let `${NAME}` stand wherever a scalar of another kind than text is asked for."""
    if isinstance(node, list):
        for item in node:
            _admit_references(item)
    if not isinstance(node, dict):
        return
    for key, inner in list(node.items()):
        if key == "properties":
            for name, field in inner.items():
                _admit_references(field)
                inner[name] = _with_reference(field)
        elif key in ("items", "additionalProperties") and isinstance(inner, dict):
            _admit_references(inner)
            node[key] = _with_reference(inner)
        elif key not in ("default", "enum", "const", "required", "propertyNames"):
            _admit_references(inner)


def _with_reference(field: dict[str, Any]) -> dict[str, Any]:
    scalar = field.get("type") in ("integer", "number", "boolean") or "enum" in field or "pattern" in field
    if not scalar or "const" in field:
        return field
    outside: dict[str, Any] = {key: field[key] for key in ("title", "description", "default") if key in field}
    inside = {key: value for key, value in field.items() if key not in outside}
    return {**outside, "anyOf": [inside, dict(_REFERENCE)]}
