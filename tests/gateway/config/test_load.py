"""Reading a configuration file: expansion, types, paths, secrets, and files that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.describe import schema, version
from gateway.config.environment import ExpansionError, expand, with_derived
from gateway.config.load import load, read
from gateway.config.locate import locate
from gateway.errors import ConfigError
from tests.gateway.config.files import MINIMAL, look, problems, with_route

EXAMPLES = Path(__file__).parents[3] / "examples" / "quickstart"
SECRET = "s3cr3t-Value-0123456789"


def write(folder: Path, text: str = MINIMAL) -> Path:
    path = folder / "gateway.yaml"
    path.write_text(text)
    return path


# -- expansion ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "one"),
        ("x${A}y${A}z", "xoneyonez"),
        ("${UNSET:-two}", "two"),
        ("${EMPTY:-two}", "two"),
        ("${EMPTY}", ""),
        ("${UNSET:-}", ""),
        ("${A:-two}", "one"),
        ("$${A}", "${A}"),
        ("$$$${A}", "$${A}"),
        ("cost $5, $A", "cost $5, $A"),
        ("${NESTED}", "${A}"),
        ("", ""),
    ],
)
def test_variables_expand_as_in_a_shell(text: str, expected: str) -> None:
    assert expand(text, {"A": "one", "EMPTY": "", "NESTED": "${A}"}) == expected


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A", "${A:}", "${A:?x}", "${A:-${B}}", "${A-x}"])
def test_a_reference_that_would_be_misread_is_refused(text: str) -> None:
    with pytest.raises(ExpansionError, match="must be followed by a variable's name"):
        expand(text, {"A": "one", "B": "two"})


@given(st.text(alphabet="${}:-AB \n", max_size=30))
def test_text_without_references_comes_through_and_nothing_is_expanded_twice(text: str) -> None:
    escaped = text.replace("$", "$$")
    assert expand(escaped, {"A": "x"}) == text
    assert expand("${A}", {"A": escaped}) == escaped


def test_expanded_values_get_the_type_that_their_key_wants() -> None:
    text = with_route("upstream: real\ndefault: ${YES}\nmodel: ${MODEL}\nkeep_alive_after: ${SECONDS}")
    text += "server: {port: '${PORT}', host: '${HOST:-127.0.0.1}'}\n"
    config = look(text, {"YES": "true", "MODEL": "4", "SECONDS": "2.5", "PORT": "9000"}).require()
    route = config.routes["r"]
    assert (route.default, route.model, route.keep_alive_after) == (True, "4", 2.5)
    assert (config.server.port, config.server.host) == (9000, "127.0.0.1")


def test_a_reference_that_yaml_itself_misreads_is_explained() -> None:
    (line,) = problems(MINIMAL + "server: {port: ${PORT}}\n", {"PORT": "1"})
    assert line.startswith("gateway.yaml:14:17: is not YAML")
    assert line.endswith('inside { } and [ ] put a reference in quotes, e.g. {port: "${PORT}"}')


def test_a_second_default_route_is_found_behind_a_variable_too() -> None:
    text = with_route("upstream: real\ndefault: ${YES}").replace(
        "    model: m\n", "    model: m\n    default: ${YES}\n"
    )
    assert any("is the default route already" in line for line in problems(text, {"YES": "true"}))


def test_a_value_from_the_environment_is_never_read_as_yaml() -> None:
    config = look(with_route("upstream: real\nmodel: ${M}"), {"M": "a: [b"}).require()
    assert config.routes["r"].model == "a: [b"


def test_a_variable_that_is_not_set_leaves_the_default_of_its_key_in_force() -> None:
    config = look(MINIMAL + "server:\n  port: ${P:-}\nledger:\n  database_url: ${DATABASE_URL:-}\n").require()
    assert config.server.port == 8080
    assert config.ledger.database_url is None


def test_sections_whose_lines_are_all_commented_out_count_as_not_written() -> None:
    config = look(MINIMAL + "server:\n  # port: 1\nkeys:\nledger:\n").require()
    assert config.server.port == 8080
    assert config.keys == ()


def test_null_stays_null_where_it_means_something() -> None:
    text = MINIMAL.replace("{kind: openai, model: m}", "{kind: openai, model: m, temperature: null}")
    assert look(text).require().judges["careful"].temperature is None
    assert look(MINIMAL).require().judges["careful"].temperature == 0.0


def test_words_that_old_yaml_takes_for_booleans_stay_words() -> None:
    text = with_route(
        "upstream: real\ncheck: {kind: facts, collections: [docs]}\nrequest_options: {check: [off]}\n"
        "retrieval: {collections: [docs], filters: {country: no, time: 12:30}}"
    )
    config = look(text + "ledger: {spool: {fsync: off}}\n").require()
    route = config.routes["r"]
    assert route.request_options.check == ("off",)
    assert route.retrieval is not None
    assert route.retrieval.filters == {"country": "no", "time": "12:30"}
    assert config.ledger.spool.fsync == "off"


def test_anchors_and_merge_keys_spare_repetition_and_own_keys_win() -> None:
    text = with_route("&r\nupstream: real\nmodel: a") + "  s:\n    <<: [*r, {bodies: drop, model: c}]\n    model: b\n"
    text = text.replace("  r:\n    &r\n", "  r: &r\n")
    route = look(text).require().routes["s"]
    assert (route.upstream, route.model, route.bodies.value) == ("real", "b", "drop")


@pytest.mark.parametrize(
    ("environ", "upstream"),
    [
        ({}, "extractive"),
        ({"OPENAI_API_KEY": ""}, "extractive"),
        ({"OPENAI_API_KEY": "k"}, "openai"),
        ({"UPSTREAM_BASE_URL": "http://127.0.0.1:1/v1"}, "openai"),
        ({"OPENAI_API_KEY": "k", "GATEWAY_UPSTREAM": "extractive"}, "extractive"),
    ],
)
def test_the_quickstart_uses_a_real_model_as_soon_as_there_is_one(environ: dict[str, str], upstream: str) -> None:
    config = load(EXAMPLES / "gateway.yaml", environ)
    assert config.routes["docs"].upstream == upstream
    assert with_derived(environ)["GATEWAY_UPSTREAM"] == upstream


def test_every_shipped_example_is_valid() -> None:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        reading = read(path, {})
        assert reading.problems == (), path
        assert reading.warnings == (), path
    full = load(EXAMPLES / "full.yaml", {})
    assert full.model_fields_set == set(type(full).model_fields)


# -- paths and secrets -------------------------------------------------------------------------------------------------


def test_relative_paths_start_at_the_configuration_file(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    text = MINIMAL.replace("{paths: [docs]}", "{paths: [docs, ../more, /abs], encoder: {kind: onnx, model: weights}}")
    config = load(write(folder, text), {})
    assert config.data_dir == folder / ".data"
    assert config.collections["docs"].paths == (folder / "docs", tmp_path / "more", Path("/abs"))
    assert config.collections["docs"].encoder.model == str(folder / "weights")


def test_the_home_folder_is_understood() -> None:
    config = look(MINIMAL + "data_dir: ~/gateway\n").require()
    assert config.data_dir == Path.home() / "gateway"


def test_secrets_come_from_files_without_their_line_end(tmp_path: Path) -> None:
    for name in ("up", "judge", "encoder", "db", "fence", "rerank"):
        (tmp_path / name).write_text(f"{SECRET}-{name}\n")
        (tmp_path / name).chmod(0o600)
    text = MINIMAL.replace('9/v1"', '9/v1", api_key_file: up').replace("model: m}", "model: m, api_key_file: judge}")
    text = text.replace("[docs]}\njudges", "[docs], encoder: {api_key_file: encoder}}\njudges")
    rerank = 'rerank: {url: "http://127.0.0.1:9/rerank", api_key_file: rerank}'
    text = text.replace("collections: [docs]}", f"collections: [docs], {rerank}}}", 1)
    text += "ledger: {database_url_file: db}\nserver: {secret_file: fence}\n"
    reading = read(write(tmp_path, text), {})
    config = reading.require()
    found = [
        getattr(config.upstreams["real"], "api_key", None),
        config.judges["careful"].api_key,
        config.collections["docs"].encoder.api_key,
        config.ledger.database_url,
        config.server.secret,
        retrieval.rerank.api_key if (retrieval := config.routes["support"].retrieval) and retrieval.rerank else None,
    ]
    values = [secret.get_secret_value() if secret else None for secret in found]
    assert values == [f"{SECRET}-{name}" for name in ("up", "judge", "encoder", "db", "fence", "rerank")]
    assert reading.warnings == ()
    assert {path.name for path in reading.files} == {"gateway.yaml", "up", "judge", "encoder", "db", "fence", "rerank"}


def test_a_secret_file_that_everybody_can_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    (tmp_path / "key").chmod(0o644)
    reading = read(write(tmp_path, MINIMAL.replace('9/v1"', '9/v1", api_key_file: key')), {})
    assert reading.config is not None
    assert len(reading.warnings) == 1
    assert "can be read by every user of this machine; chmod 600" in reading.warnings[0]
    assert SECRET not in reading.warnings[0]


@pytest.mark.parametrize(
    ("content", "holds"),
    [
        (None, "the file does not exist; relative paths start at"),
        (b"", "must hold the secret on one line"),
        (b"\n", "must hold the secret on one line"),
        (b"one\ntwo\n", "must hold the secret on one line"),
        (b"\xff\xfe", "must hold the secret on one line"),
        (b"x" * 70_000, "must hold the secret on one line"),
        ("folder", "cannot be read"),
    ],
)
def test_a_secret_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes | str | None, holds: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "key").write_bytes(content)
    elif content is not None:
        (tmp_path / "key").mkdir()
    reading = read(write(tmp_path, MINIMAL.replace('9/v1"', '9/v1", api_key_file: key')), {})
    (line,) = map(str, reading.problems)
    assert ":3:59 upstreams.real.api_key_file: the file" in line
    assert holds in line


def test_a_secret_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    text = MINIMAL.replace('9/v1"', f'9/v1", api_key: {SECRET}, api_key_file: key')
    (line,) = map(str, read(write(tmp_path, text), {}).problems)
    assert "is given beside api_key; keep one of the two" in line
    assert SECRET not in line


def test_no_secret_shows_in_problems_whatever_key_it_was_put_under() -> None:
    wrong_places = [
        MINIMAL.replace('9/v1"', '9/v1", api_key: ["${S}"]'),
        MINIMAL.replace('9/v1"', '9/v1", api_key_file: "${S}"'),
        MINIMAL.replace('9/v1"', '9/v1", proxy: "${S}"'),
        MINIMAL.replace('9/v1"', '9/v1", headers: "${S}"'),
        MINIMAL.replace('9/v1"', '9/v1", connections: "${S}"'),
        MINIMAL.replace('"http://127.0.0.1:9/v1"', "'${S}'"),
        MINIMAL.replace("{kind: extractive}", "{kind: '${S}'}"),
        with_route("upstream: '${S}'"),
        with_route("upstream: real\nrelease: '${S}'"),
        with_route("upstream: real\nretrieval: {collections: ['${S}']}"),
        MINIMAL + "server: {host: '${S}'}\n",
        MINIMAL + "server: {tls: {certificate: a, key: b}, port: '${S}'}\n",
        MINIMAL + "keys: [{id: '${S}', sha256: '${S}'}]\n",
        MINIMAL.replace('"http://127.0.0.1:9/v1"', '"http://user:${S}@host/v1"'),
    ]
    for text in wrong_places:
        lines = problems(text, {"S": SECRET})
        assert not any("is not YAML" in line for line in lines), lines
        assert lines, text
        assert SECRET not in "\n".join(lines), lines
    assert "sk-abcdefghij0123456789" not in "\n".join(problems(with_route("upstream: sk-abcdefghij0123456789")))


def test_no_secret_shows_in_what_a_configuration_says_of_itself() -> None:
    text = MINIMAL.replace('9/v1"', f'9/v1", api_key: {SECRET}, headers: {{x: {SECRET}}}, proxy: "http://u:{SECRET}@p"')
    text = text.replace("model: m}", f"model: m, api_key: {SECRET}, proxy: 'http://u:{SECRET}@p'}}")
    text += f"ledger: {{database_url: 'postgresql://u:{SECRET}@h/d'}}\nserver: {{secret: {SECRET}}}\n"
    config = look(text).require()
    for shown in (repr(config), str(config), json.dumps(schema()), version(config)):
        assert SECRET not in shown


# -- files that cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "holds"),
    [
        (None, "does not exist; see examples/quickstart/gateway.yaml"),
        ("folder", "is a folder; name the file"),
        (b"a: 1\nb: \xff\n", ":2:4: is not UTF-8 here; save the file as UTF-8"),
        (b"#" * 1_000_001, "is larger than 1000000 bytes"),
        (b"", "is empty"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | str | None, holds: str) -> None:
    path = tmp_path / "gateway.yaml"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.mkdir()
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    (problem,) = caught.value.problems
    assert problem.startswith(str(path))
    assert holds in problem


def test_a_name_that_no_file_can_have_is_a_problem_too() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("a\0b"), {})


def test_a_file_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(ConfigError, match="check its path and permissions"):
        load(path / "gateway.yaml", {})  # below a file, not a folder


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load(path, {}).routes


def test_the_configuration_is_found_where_a_user_expects_it(tmp_path: Path) -> None:
    assert locate(Path("given.yaml"), {"GATEWAY_CONFIG": "other.yaml"}, tmp_path) == Path("given.yaml")
    assert locate(None, {"GATEWAY_CONFIG": "other.yaml"}, tmp_path) == Path("other.yaml")
    with pytest.raises(ConfigError, match="pass --config FILE"):
        locate(None, {}, tmp_path)
    write(tmp_path)
    assert locate(None, {}, tmp_path) == Path("gateway.yaml")


# -- schema and version ------------------------------------------------------------------------------------------------


def test_editors_get_every_key_with_its_words_and_nothing_else() -> None:
    document = schema()
    definitions = document["$defs"]
    route = definitions["RouteConfig"]
    assert route["additionalProperties"] is False
    assert document["additionalProperties"] is False
    assert definitions["Release"]["enum"] == ["live", "sentence", "held", "detached"]
    assert "what a verdict does" in route["description"]
    assert route["properties"]["default"]["description"].startswith("The route for model names")
    port = definitions["Server"]["properties"]["port"]
    assert port["anyOf"] == [
        {"type": "integer", "minimum": 0, "maximum": 65535},
        {"type": "string", "pattern": r"\$\{"},
    ]
    json.dumps(document)


def test_a_version_changes_with_what_decides_an_answer_and_with_nothing_else() -> None:
    first = version(look(MINIMAL).require())
    assert len(first) == 12
    assert version(look("# other words\n" + MINIMAL).require()) == first
    assert version(look(MINIMAL + "server: {port: 1}\n").require()) == first
    assert version(look(MINIMAL.replace('9/v1"', f'9/v1", api_key: {SECRET}')).require()) == first
    assert version(look(MINIMAL.replace("model: m\n", "model: n\n")).require()) != first
    assert version(look(MINIMAL.replace("kind: facts}", "kind: facts, k: 5}")).require()) != first


# -- nothing but ConfigError -------------------------------------------------------------------------------------------

TOP = ["upstreams", "routes", "keys", "server", "collections", "x", "<<", "*"]
BELOW = ["kind", "openai", "facts", "check", "real", "r", "port", "docs", "release", "held", "action", "default"]
WORDS = st.sampled_from([*TOP, *BELOW, "api_key_file", "options", "sha256", "tls"])
SCALARS = st.one_of(WORDS, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=30
)


def _only_config_errors(text: str) -> None:
    reading = look(text, {"A": "b"})
    if reading.config is None:
        assert reading.problems
        with pytest.raises(ConfigError):
            reading.require()
        for problem in reading.problems:
            str(problem).encode()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_arbitrary_text_is_a_configuration_or_a_problem(text: str) -> None:
    _only_config_errors(text)


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_arbitrary_yaml_is_a_configuration_or_a_problem(tree: Any) -> None:
    _only_config_errors(json.dumps(tree))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(MINIMAL.splitlines()), st.text(alphabet=" :{}[]-&*!|>'\"%@`#?,\n\t~<$ab1", max_size=12), st.data()
)
def test_a_slip_of_the_keyboard_is_a_configuration_or_a_problem(line: str, slip: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line)))
    _only_config_errors(MINIMAL.replace(line, line[:at] + slip + line[at:], 1))


@settings(max_examples=60, deadline=None)
@given(WORDS, TREES)
def test_any_value_under_any_key_of_a_valid_configuration_is_handled(key: str, tree: Any) -> None:
    _only_config_errors(MINIMAL + f"{json.dumps(key)}: {json.dumps(tree)}\n")
    _only_config_errors(with_route(f"upstream: real\n{json.dumps(key)}: {json.dumps(tree)}"))
