"""No credential reaches a log or the ledger, and no ordinary text is damaged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.redact import REDACTED, redact, redact_json

SECRETS = {
    "openai": "sk-proj-abcDEF1234567890abcDEF",
    "anthropic": "sk-ant-api03-abcDEF1234567890",
    "ours": "gg-0123456789abcdef0123456789abcdef",
    "stripe": "sk_live_abcdefgh12345678",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "github": "ghp_abcdefghijklmnop0123456789",
    "github_fine": "github_pat_11ABCDEFG0abcdefghij",
    "gitlab": "glpat-abcdefghij0123456789",
    "hugging_face": "hf_abcdefghijklmnopqrstuvwx",
    "slack": "xoxb-123456789012-abcdefghij",
    "google": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
}
WITH_NAMES = [
    ("Authorization: Bearer hunter2hunter2", "hunter2hunter2"),
    ("authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
    ("curl -H 'Authorization: Bearer sekrit'", "sekrit"),
    ("Bearer abcDEFghiJKL", "abcDEFghiJKL"),
    ("bearer\tmytoken-12345", "mytoken-12345"),
    ("x-api-key: 0123abcd4567", "0123abcd4567"),
    ("api_key = 'abcd1234efgh'", "abcd1234efgh"),
    ("?api_key=abcd1234efgh&x=1", "abcd1234efgh"),
    ('{"access_token": "ya29abcdefgh"}', "ya29abcdefgh"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
    ("postgresql://user:s3cr3t@db.internal/x", "s3cr3t"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA"),
]
INNOCENT = [
    "Use bearer authentication for the task-based, risk-free sk-learn pipeline.",
    "The ring bearer walked to bearer-free lands.",
    "Send the Authorization header with every request.",
    "api_key=os.environ['KEY']",
    "see https://example.com/a:b and mail me@example.com at 10:30",
    "gg-wp, well played; disk-usage-of-the-node",
    "AKIA is a prefix; ASIA is a continent",
    "The private key stays with you.",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "key {} end", '"{}"', "={}&", "({}).", "\n{}\n"])
def test_a_key_in_running_text_is_gone(secret: str, around: str) -> None:
    text = around.format(secret)
    assert secret[6:] not in redact(text)
    assert REDACTED in redact(text)
    kept = json.loads(redact_json(json.dumps({"a": text, "b": [text]}).encode()))
    assert secret[6:] not in str(kept)
    assert set(kept) == {"a", "b"}


@pytest.mark.parametrize(("text", "secret"), WITH_NAMES)
def test_a_secret_beside_its_name_is_gone_however_often_it_was_encoded(text: str, secret: str) -> None:
    assert secret not in redact(text)
    encoded: object = text
    for _ in range(4):
        encoded = json.dumps({"value": encoded})
        assert secret not in redact(str(encoded))
        cleaned = redact_json(str(encoded).encode())
        assert secret.encode() not in cleaned
        json.loads(cleaned)


@pytest.mark.parametrize("headers", ['{"Authorization": "Bearer sekrit"}', "{'authorization': 'Token sekrit'}"])
def test_a_logged_header_dict_loses_its_token(headers: str) -> None:
    assert "sekrit" not in redact(headers)


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text
    data = json.dumps(text).encode()
    assert redact_json(data) is data


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_encoded_json_stays_json(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    assert json.loads(redact_json(data)) == json.loads(data)


@given(
    st.sampled_from(sorted(SECRETS.values())), st.text(alphabet=' \\"\n{}[]:,é\u2028'), st.text(alphabet=' \\"\n{},')
)
def test_json_with_a_key_in_odd_company_stays_json(secret: str, before: str, after: str) -> None:
    data = json.dumps({"text": before + secret + after}).encode()
    cleaned = redact_json(data)
    assert secret.encode() not in cleaned
    json.loads(cleaned)
