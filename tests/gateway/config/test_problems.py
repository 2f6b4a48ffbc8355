"""Every problem of a configuration is reported with its place, its key and a remedy."""

from __future__ import annotations

import pytest

from tests.gateway.config.files import MINIMAL, look, problems, with_route


def test_the_minimal_configuration_is_accepted() -> None:
    assert problems(MINIMAL) == []


# (text, what the one line must begin with, what it must hold)
CASES = [
    pytest.param(
        with_route("upstream: real\nrealease: held"),
        "gateway.yaml:16:5 routes.r.realease: unknown key; did you mean `release`?",
        "known here: upstream, model",
        id="unknown key",
    ),
    pytest.param(
        MINIMAL + "port: 80\n",
        "gateway.yaml:14:1 port: unknown key",
        "it belongs into the section `server`",
        id="key of another section",
    ),
    pytest.param(
        MINIMAL + "frobnication: 80\n", "gateway.yaml:14:1 frobnication: unknown key", "remove it", id="odd key"
    ),
    pytest.param(
        with_route("upstream: real\nrelease: helt"),
        "gateway.yaml:16:5 routes.r.release: must be one of live, sentence, held, detached, not `helt`",
        "did you mean `held`?",
        id="enum",
    ),
    pytest.param(
        with_route("upstream: real\nother_paths: fwd"),
        "gateway.yaml:16:5 routes.r.other_paths: must be one of forward, refuse",
        "not `fwd`",
        id="literal",
    ),
    pytest.param(
        with_route("upstream: real\non_unchecked: {timeot: allow}"),
        "gateway.yaml:16:20 routes.r.on_unchecked.timeot: unknown key; did you mean `timeout`?",
        "known: no_facts",
        id="enum as key",
    ),
    pytest.param(
        with_route("model: m"),
        "gateway.yaml:14:3 routes.r.upstream: is missing",
        "add it",
        id="missing key",
    ),
    pytest.param(
        MINIMAL.replace("{kind: extractive}", "{kind: extactive}"),
        "gateway.yaml:2:12 upstreams.quotes.kind: must be one of openai, azure, anthropic, responses, extractive",
        "did you mean `extractive`?",
        id="unknown kind",
    ),
    pytest.param(
        MINIMAL.replace("{kind: extractive}", "{max_sentences: 2}"),
        "gateway.yaml:2:3 upstreams.quotes: has no `kind`",
        "add kind: with one of openai, azure, anthropic, responses, extractive, plugin, pool",
        id="no kind",
    ),
    pytest.param(
        MINIMAL + "server: {port: 99999}\n",
        "gateway.yaml:14:10 server.port: must be at most 65535",
        "not `99999`",
        id="bound",
    ),
    pytest.param(
        MINIMAL + "server: {port: eighty}\n",
        "gateway.yaml:14:10 server.port: must be a whole number",
        "not `eighty`",
        id="integer",
    ),
    pytest.param(
        MINIMAL + "server: {drain_seconds: 1e999}\n",
        "gateway.yaml:14:10 server.drain_seconds: must be a finite number",
        "not `1e999`",
        id="infinity",
    ),
    pytest.param(
        with_route("upstream: real\ndefault: perhaps"),
        "gateway.yaml:16:5 routes.r.default: must be `true` or `false`",
        "not `perhaps`",
        id="boolean",
    ),
    pytest.param(
        with_route("upstream: real\nmodel: 4"),
        "gateway.yaml:16:5 routes.r.model: must be a text",
        "put it in quotes",
        id="text",
    ),
    pytest.param(
        MINIMAL.replace("paths: [docs]", "paths: docs"),
        "gateway.yaml:5:10 collections.docs.paths: must be a list",
        "e.g. [one, two]",
        id="list",
    ),
    pytest.param(
        MINIMAL + "server: 8080\n",
        "gateway.yaml:14:1 server: must be a section of `key: value` lines",
        "not `8080`",
        id="section",
    ),
    pytest.param(
        MINIMAL + "routes2: {}\n".replace("routes2", "keys"),
        "gateway.yaml:14:1 keys: must be a list",
        "e.g. [one, two]",
        id="list of sections",
    ),
    pytest.param(
        MINIMAL.replace("http://127.0.0.1:9/v1", "ftp://x"),
        "gateway.yaml:3:24 upstreams.real.base_url: must begin with http:// or https://",
        "not `ftp://x`",
        id="address",
    ),
    pytest.param(
        MINIMAL + "  Support Desk: {upstream: real}\n",
        "gateway.yaml:14:3 routes.Support Desk: is no name",
        "use lower-case letters",
        id="name",
    ),
    pytest.param(
        MINIMAL + "keys: [{id: k, sha256: abc}]\n",
        "gateway.yaml:14:16 keys[0].sha256: must be the SHA-256 of a key",
        "make it with `grounding-gateway keys hash`",
        id="key digest",
    ),
    pytest.param(
        "upstreams: {a: {kind: extractive}}\nroutes: {}\n",
        "gateway.yaml:2:1 routes: is empty",
        "give at least one",
        id="no routes",
    ),
    pytest.param(
        with_route("upstream: real\nmodel: ${MODEL_NAME}"),
        "gateway.yaml:16:12 routes.r.model: the environment variable MODEL_NAME is not set",
        "give a default: ${MODEL_NAME:-value}",
        id="unset variable",
    ),
    pytest.param(
        with_route("upstream: real\nmodel: ${MODEL"),
        "gateway.yaml:16:12 routes.r.model: `${` must be followed by a variable's name and `}`",
        "write $${",
        id="broken reference",
    ),
    pytest.param(
        with_route("upstream: real\nmodel: a\nmodel: b"),
        "gateway.yaml:17:5 routes.r.model: is given twice, first in line 16",
        "keep one of the two",
        id="duplicate key",
    ),
    pytest.param(
        with_route("upstream: real\nmodel: !!python/name:os.system x"),
        "gateway.yaml:16:12 routes.r.model: has a YAML tag",
        "remove it",
        id="tag",
    ),
    pytest.param(
        with_route("upstream: rael"),
        "gateway.yaml:15:5 routes.r.upstream: names an upstream `rael`, which is not configured; did you mean `real`?",
        "known: quotes, real",
        id="unknown upstream",
    ),
    pytest.param(
        with_route("upstream: real\nretrieval: {collections: [docs, dcos]}"),
        "gateway.yaml:16:37 routes.r.retrieval.collections[1]: names a collection `dcos`",
        "did you mean `docs`?",
        id="unknown collection to retrieve from",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts, collections: [papers]}"),
        "gateway.yaml:16:40 routes.r.check.collections[0]: names a collection `papers`",
        "known: docs",
        id="unknown collection to check against",
    ),
    pytest.param(
        with_route(
            "upstream: real\ncheck: {kind: facts, collections: [docs], classifier: {kind: judge, judge: carefull}}"
        ),
        "gateway.yaml:16:73 routes.r.check.classifier.judge: names a judge `carefull`",
        "did you mean `careful`?",
        id="unknown judge",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts, collections: [docs], classifier: {kind: endpoint}}"),
        "gateway.yaml:16:60 routes.r.check.classifier.kind: a classifier of kind 'endpoint' needs url:",
        "predict endpoint",
        id="endpoint without an address",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts, collections: [docs], classifier: {kind: local, model: nli}}"),
        "gateway.yaml:16:60 routes.r.check.classifier.kind: model is nothing that a classifier of kind 'local' takes",
        "use kind cross_encoder",
        id="a model for the shipped classifier",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts, collections: [docs], aggregation: {budget: 0.1}}"),
        "gateway.yaml:16:61 routes.r.check.aggregation.budget: a false-alarm budget needs kind: graded",
        "graded",
        id="a budget under strict",
    ),
    pytest.param(
        with_route(
            "upstream: real\ncheck: {kind: facts, collections: [docs], aggregation: {kind: graded, budget: 0.1}}"
        ),
        "gateway.yaml:16:75 routes.r.check.aggregation.budget: budget and calibration go together",
        "labels",
        id="a budget without labels",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts, collections: [docs], questions: {kind: judge}}"),
        "gateway.yaml:16:59 routes.r.check.questions.kind: questions of kind 'judge' need judge: <name of a judge>",
        "judge",
        id="judge not named",
    ),
    pytest.param(
        with_route("upstream: quotes"),
        "gateway.yaml:15:5 routes.r.upstream: `quotes` answers from retrieved passages, and this route retrieves none",
        "add retrieval: {collections: [...]}",
        id="extractive without retrieval",
    ),
    pytest.param(
        with_route("upstream: quotes\nretrieval: {collections: [docs]}\nauth: passthrough"),
        "gateway.yaml:17:5 routes.r.auth: passthrough needs an upstream that checks the caller's key",
        "use auth: keys",
        id="extractive with passthrough",
    ),
    pytest.param(
        with_route("upstream: quotes\nretrieval: {collections: [docs]}\nother_paths: forward"),
        "gateway.yaml:17:5 routes.r.other_paths: `quotes` (kind extractive) has nowhere to forward to",
        "use other_paths: refuse",
        id="extractive with forwarding",
    ),
    pytest.param(
        with_route("upstream: real\ndefault: true").replace("    model: m\n", "    model: m\n    default: true\n"),
        "gateway.yaml:17:5 routes.r.default: `support` is the default route already",
        "keep one",
        id="two default routes",
    ),
    pytest.param(
        with_route("upstream: real\naction: block\nrelease: held"),
        "gateway.yaml:16:5 routes.r.action: action: block needs a check",
        "add check: {kind: facts}",
        id="action without check",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts}"),
        "gateway.yaml:16:5 routes.r.check: the check has no collections to search",
        "add check.collections, or retrieval.collections",
        id="check without documents",
    ),
    pytest.param(
        MINIMAL + "keys: [{id: k, routes: [suport], sha256: " + "a" * 64 + "}]\n",
        "gateway.yaml:14:25 keys[0].routes[0]: names a route `suport`",
        "did you mean `support`?; known: support; `*` stands for all",
        id="key for an unknown route",
    ),
    pytest.param(
        MINIMAL + f"keys: [{{id: k, sha256: {'a' * 64}}}, {{id: k, sha256: {'b' * 64}}}]\n",
        "gateway.yaml:14:92 keys[1].id: is the same as that of keys[0]",
        "each key stands once",
        id="two keys of one id",
    ),
    pytest.param(
        MINIMAL + "server: {host: 0.0.0.0}\n",
        "gateway.yaml:14:10 server.host: 0.0.0.0 is reachable from other machines, and no keys are configured",
        "loopback without keys is allowed only when bound to loopback",
        id="open to the network",
    ),
    pytest.param(
        MINIMAL + "server: {tls: {certificate: nowhere.crt, key: gateway.yaml}}\n".replace("gateway.yaml", "nokey"),
        "gateway.yaml:14:16 server.tls.certificate: ",
        "nowhere.crt does not exist; relative paths start at",
        id="certificate not there",
    ),
    pytest.param(
        MINIMAL.replace('9/v1"', '9/v1", tls: {client_key: f}'),
        "gateway.yaml:3:65 upstreams.real.tls.client_key: ",
        "does not exist",
        id="client key not there",
    ),
    pytest.param(
        MINIMAL.replace("{paths: [docs]}", "{paths: [docs], encoder: {kind: openai, model: e}}"),
        "gateway.yaml:5:35 collections.docs.encoder.kind: an encoder of kind 'openai' needs base_url",
        "e.g. https://api.openai.com/v1",
        id="encoder without address",
    ),
    pytest.param(
        MINIMAL.replace("{paths: [docs]}", "{paths: [docs], encoder: {kind: sentence_transformer}}"),
        "gateway.yaml:5:35 collections.docs.encoder.kind: an encoder of kind 'sentence_transformer' needs model",
        "needs model",
        id="encoder without model",
    ),
    pytest.param(
        with_route(
            "upstream: real\ncheck: {kind: facts, collections: [docs]}\nrequest_options: {check: [off]}\n"
            "on_unchecked: {disabled: block}\nrelease: held"
        ),
        "gateway.yaml:17:5 routes.r.request_options: request_options.check lets a request switch the check off",
        "drop one of the two",
        id="check off and blocked",
    ),
    pytest.param(
        with_route("upstream: real\ncheck: {kind: facts, collections: [docs]}\non_unchecked: {timeout: block}"),
        "gateway.yaml:17:5 routes.r.on_unchecked: on_unchecked: {timeout: block} has to block",
        "use release: held",
        id="unchecked blocked where nothing can block",
    ),
    pytest.param(
        with_route(
            "upstream: real\ncheck: {kind: facts, collections: [docs]}\nrelease: held\naction: block\n"
            "request_options: {release: [live]}"
        ),
        "gateway.yaml:19:5 routes.r.request_options: release: live has sent the text before the verdict exists",
        "or take live out of request_options.release",
        id="a request may not ask for what cannot work",
    ),
    pytest.param(
        MINIMAL.replace("{paths: [docs]}", "{paths: [docs], search: {mode: dense, lexical_weight: 0.4}}"),
        "gateway.yaml:5",
        "mode: dense searches without words",
        id="a weight for words that are not searched would do nothing",
    ),
    pytest.param(
        MINIMAL.replace("{paths: [docs]}", "{paths: [docs], search: {languages: [en, de]}}"),
        "gateway.yaml:5",
        "languages of one script (en, de)",
        id="two languages of one script cannot be told apart",
    ),
    pytest.param(
        MINIMAL.replace("{paths: [docs]}", "{paths: [docs], search: {fusion: rrf}}"),
        "gateway.yaml",
        "set min_score: 0, or use fusion: calibrated",
        id="a threshold on ranks would drop every passage or none",
    ),
]


@pytest.mark.parametrize(("text", "begins", "holds"), CASES)
def test_an_operator_is_told_file_line_key_and_remedy(text: str, begins: str, holds: str) -> None:
    lines = problems(text)
    assert any(line.startswith(begins) and holds in line for line in lines), lines
    # The certificate case names two files; every other mistake is one problem, not an avalanche.
    assert len(lines) <= 2, lines


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = with_route("upstream: nowhere\nrealease: held\naction: block\nmodel: ${UNSET}") + "server: {port: x}\n"
    lines = problems(text)
    keys = [line.split(": ")[0].split(" ")[1] for line in lines]
    assert keys == [
        "routes.r.upstream",
        "routes.r.realease",
        "routes.r.action",
        "routes.r.action",
        "routes.r.model",
        "server.port",
    ]


def test_a_wrong_value_hides_no_impossible_combination_and_invents_none() -> None:
    wrong_key = "upstream: real\nfrob: 1\nrelease: live\naction: filter\ncheck: {kind: facts, collections: [docs]}"
    assert any("action: filter cannot work" in line for line in problems(with_route(wrong_key)))
    wrong_release = "upstream: real\nrelease: helt\naction: filter\ncheck: {kind: facts, collections: [docs]}"
    assert not any("cannot work" in line for line in problems(with_route(wrong_release)))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", "gateway.yaml: is empty; it needs at least `upstreams` and `routes`"),
        ("# nothing\n", "gateway.yaml: is empty"),
        ("- a\n", "gateway.yaml:1:1: is a list; it must be sections"),
        ("just words", "gateway.yaml:1:1: is a single value"),
        ("a: [1, 2", "gateway.yaml:1:9: is not YAML"),
        ("a:\n\tb: 1\n", "indent with spaces, not tabs"),
        ("a: b: c\n", "put a value that holds `: ` in quotes"),
        ("a: *nothing\n", "gateway.yaml:1:4: is not YAML: found undefined alias"),
        ("a: 1\n---\nb: 2\n", "keep one document"),
        ("a: \x07\n", "gateway.yaml:1:4: holds a control character"),
        ('a: "\\UFFFFFFFF"\n', "gateway.yaml: is not YAML: it holds an escape that is no character"),
        ('a: "\\ud800"\n', "gateway.yaml:1:4 a: holds a character that is not valid Unicode"),
        ('"\\ud800": 1\n', "has a key that is not valid Unicode"),
        ("? [a]\n: b\n", "has a key that is a list or a section"),
        ("a: &x [*x]\n", "contains itself through its alias"),
        ("[" * 5000, "is nested too deeply"),
        ("a: " + "[" * 60 + "]" * 60, "is nested too deeply; at most 40 levels"),
        ("a:\n  <<: 3\n", "`<<` takes a section"),
        ("a:\n  <<: [3]\n", "`<<` takes sections only"),
        ("a: !custom {}\n", "has a YAML tag"),
        ("a: !custom []\n", "has a YAML tag"),
    ],
)
def test_a_file_that_is_no_configuration_is_named_with_its_place(text: str, holds: str) -> None:
    assert any(holds in line for line in problems(text)), problems(text)


def test_a_few_lines_of_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    assert any("unfolds to more than 50000 values; use fewer aliases" in line for line in problems("\n".join(lines)))


def test_a_problem_inside_an_anchor_is_shown_where_it_is_written() -> None:
    text = with_route("upstream: real\n<<: &shared {release: helt}") + "  s: {upstream: real, <<: *shared}\n"
    lines = problems(text)
    assert [line.split(": must")[0] for line in lines] == [
        "gateway.yaml:16:18 routes.r.release",
        "gateway.yaml:16:18 routes.s.release",
    ]


def test_warnings_name_settings_that_do_nothing_or_give_documents_away() -> None:
    text = (
        MINIMAL.replace('9/v1"', '9/v1", api_key: k')
        + "  open: {upstream: real, auth: passthrough, retrieval: {collections: [docs]}}\n  bare: {upstream: real}\n"
        + f"server: {{host: 0.0.0.0}}\nkeys: [{{id: k, sha256: {'a' * 64}}}]\n"
    )
    reading = look(text)
    assert reading.config is not None
    warnings = "\n".join(reading.warnings)
    assert "routes.open: auth: passthrough sends the caller's own key" in warnings
    assert "routes.open: with auth: passthrough anybody who reaches 0.0.0.0" in warnings
    assert "routes.bare: has no model" in warnings
