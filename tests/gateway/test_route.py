"""Routes: which one a request gets, what it may ask of it, and what a caller learns about the others."""

from __future__ import annotations

import itertools

import pytest

from gateway.access.keys import Keyring, Principal, key_digest
from gateway.config.model import GatewayConfig, KeyConfig
from gateway.config.modes import Action, Release
from gateway.errors import AuthenticationError, NotFoundError, PermissionDeniedError, RequestError
from gateway.route import Effective, Route, RouteTable
from gateway.wire.types import GroundingOptions
from tests.gateway.config.files import look

TEXT = """\
upstreams:
  quotes: {kind: extractive}
  real: {kind: openai, base_url: "http://127.0.0.1:9/v1"}
  other: {kind: plugin, name: p}
collections:
  docs: {paths: [docs]}
routes:
  support: {upstream: real, model: big, retrieval: {collections: [docs], filters: {lang: en}}, release: held,
            check: {kind: facts}, action: block, request_options: {release: [held, sentence], check: ["off", shadow]},
            block_response: refusal}
  billing: {upstream: real, model: big, client_model: true}
  bare: {upstream: real, request_options: {filters: false, repository: true}}
  quotes: {upstream: quotes, model: ignored, retrieval: {collections: [docs]}}
  plug: {upstream: other}
  open: {upstream: real, auth: passthrough, other_paths: forward}
"""
WITH_DEFAULT = TEXT.replace("  open: {upstream: real,", "  open: {upstream: real, default: true,")
KEY = "gg-0123456789abcdefghij"


def table(text: str = TEXT) -> RouteTable:
    return RouteTable(configuration(text))


def configuration(text: str = TEXT) -> GatewayConfig:
    return look(text).require()


def caller(*routes: str) -> Principal:
    keys = [KeyConfig(id="k", sha256=key_digest(KEY), routes=routes)]
    return Keyring(keys, loopback=False).identify({"x-api-key": KEY})


ANYONE = Keyring([], loopback=True).identify({})
STRANGER = Keyring([KeyConfig(id="k", sha256=key_digest(KEY))], loopback=True).identify({})


def route(name: str, text: str = TEXT) -> Route:
    return table(text).by_path(name, ANYONE)


# -- selection ---------------------------------------------------------------------------------------------------------


def test_a_route_is_found_by_its_path_and_by_its_name_as_model() -> None:
    assert table().by_path("support", ANYONE).name == "support"
    assert table().by_model("support", ANYONE).name == "support"


def test_a_program_that_only_changed_its_base_url_reaches_the_default_route_with_its_own_model() -> None:
    chosen = table(WITH_DEFAULT).by_model("gpt-5-mini", ANYONE)
    assert chosen.name == "open"
    assert chosen.upstream_model("gpt-5-mini") is None
    assert table(WITH_DEFAULT).by_model(None, ANYONE).name == "open"


def test_an_unknown_model_without_a_default_route_names_those_that_work() -> None:
    with pytest.raises(NotFoundError) as caught:
        table().by_model("gpt-9", caller("support", "billing"))
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
    assert caught.value.message == "there is no model 'gpt-9'; this key may use: support, billing, open"


def test_a_request_without_a_model_says_which_there_are() -> None:
    with pytest.raises(RequestError, match="model is missing; this key may use: support") as caught:
        table().by_model(None, caller("support"))
    assert caught.value.status == 400


def test_a_route_that_a_key_may_not_use_looks_exactly_like_one_that_does_not_exist() -> None:
    for select in (table().by_path, table().by_model):
        texts = []
        for name in ("billing", "nothing"):
            with pytest.raises(NotFoundError) as caught:
                select(name, caller("support"))
            texts.append((caught.value.code, caught.value.message.replace(name, "_")))
        assert texts[0] == texts[1]


def test_a_caller_without_a_key_learns_nothing_about_routes() -> None:
    for select in (table().by_path, table().by_model):
        texts = set()
        for name in ("billing", "nothing"):
            with pytest.raises(AuthenticationError) as caught:
                select(name, STRANGER)
            texts.add(caught.value.message)
        assert len(texts) == 1
    hidden = table(WITH_DEFAULT).by_model("billing", STRANGER)
    assert hidden.name == "open", "a hidden route's name is just another model name to the default route"


def test_a_passthrough_route_serves_callers_of_its_upstream() -> None:
    assert table().by_path("open", STRANGER).passthrough
    assert table().by_model("open", STRANGER).passthrough


def test_an_endless_name_is_not_said_back_in_full() -> None:
    with pytest.raises(NotFoundError) as caught:
        table().by_path("x" * 10_000, ANYONE)
    assert len(caught.value.message) < 300


def test_the_list_of_models_holds_what_the_key_may_use_and_no_more() -> None:
    models = table().models(caller("support", "bare"), created=7)
    assert [model["id"] for model in models] == ["support", "bare", "open"]
    assert models[0] == {"id": "support", "object": "model", "created": 7, "owned_by": "grounding-gateway"}
    assert [model["id"] for model in table().models(STRANGER, created=7)] == ["open"]
    with pytest.raises(AuthenticationError):
        table(TEXT.replace("auth: passthrough", "auth: keys")).models(STRANGER, created=7)


# -- the model sent upstream -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "sent"),
    [
        ("support", "support", "big"),
        ("support", "gpt-9", "big"),
        ("support", None, "big"),
        ("billing", "billing", "big"),
        ("billing", "gpt-9", None),
        ("billing", None, "big"),
        ("bare", "gpt-9", None),
        ("bare", None, None),
        ("quotes", "quotes", None),
        ("plug", "plug", None),
    ],
)
def test_the_upstream_gets_the_routes_model_or_the_clients_own(name: str, asked: str | None, sent: str | None) -> None:
    assert route(name).upstream_model(asked) == sent


def test_a_routes_name_is_never_sent_upstream_as_a_model() -> None:
    with pytest.raises(RequestError, match=r"set routes\.bare\.model") as caught:
        route("bare").upstream_model("bare")
    assert caught.value.code == "model_required"


def test_an_extractive_answer_is_not_signed_with_a_models_name() -> None:
    assert route("quotes").model is None


# -- request options ---------------------------------------------------------------------------------------------------

OWN = Effective(release=Release.HELD, action=Action.BLOCK)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (GroundingOptions(), OWN),
        (GroundingOptions(check="on"), OWN),
        (GroundingOptions(release="held"), OWN),
        (GroundingOptions(filters={"lang": "en", "product": "x"}), OWN),
        (GroundingOptions(release="sentence"), Effective(release=Release.SENTENCE, action=Action.BLOCK)),
        (GroundingOptions(check="off"), Effective(release=Release.LIVE, action=Action.ANNOTATE, check=False)),
        (GroundingOptions(check="shadow"), Effective(release=Release.DETACHED, action=Action.ANNOTATE, shadow=True)),
        (
            GroundingOptions(check="off", release="live"),
            PermissionDeniedError,
        ),
        (GroundingOptions(release="live"), PermissionDeniedError),
        (GroundingOptions(check="half"), PermissionDeniedError),
        (GroundingOptions(repository="r"), PermissionDeniedError),
        (GroundingOptions(base_revision="r"), PermissionDeniedError),
        (GroundingOptions(filters={"lang": "de"}), RequestError),
        (GroundingOptions(check="shadow", release="sentence"), RequestError),
    ],
)
def test_a_request_gets_what_its_route_allows(options: GroundingOptions, expected: Effective | type) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected) as caught:
            route("support").effective(options)
        assert caught.type is expected
    else:
        assert route("support").effective(options) == expected


def test_a_refused_option_names_the_setting_that_decides() -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        route("support").effective(GroundingOptions(release="live"))
    assert caught.value.message == (
        "the route 'support' does not allow grounding.release: live (it allows: held, sentence); "
        "routes.support.request_options.release in the gateway's configuration decides"
    )
    assert caught.value.param == "grounding.release"
    with pytest.raises(PermissionDeniedError, match=r"routes\.bare\.request_options\.filters"):
        route("bare").effective(GroundingOptions(filters={"a": "b"}))


def test_a_fixed_filter_is_refused_without_saying_its_value() -> None:
    with pytest.raises(RequestError) as caught:
        route("support").effective(GroundingOptions(filters={"lang": "de"}))
    assert caught.value.message == "grounding.filters.lang is fixed by the route 'support'; leave it out"


def test_a_route_that_reads_repositories_takes_their_names() -> None:
    options = GroundingOptions(repository="r", revision="v", base_revision="b")
    assert route("bare").effective(options) == route("bare").own


def test_no_options_can_make_a_mode_that_cannot_work() -> None:
    for release, check in itertools.product([None, *Release], [None, "off", "shadow"]):
        try:
            effective = route("support").effective(GroundingOptions(release=release, check=check))
        except RequestError:
            continue
        assert (effective.release, effective.action) not in {
            (Release.LIVE, Action.BLOCK),
            (Release.DETACHED, Action.BLOCK),
        }


def test_a_route_knows_beforehand_what_every_request_needs_of_it() -> None:
    support, plain = route("support"), route("open")
    assert (support.grounds, support.checks, support.passthrough, support.forwards) == (True, True, False, False)
    assert (plain.grounds, plain.checks, plain.passthrough, plain.forwards) == (False, False, True, True)
    assert [each.name for each in table().routes.values()] == ["support", "billing", "bare", "quotes", "plug", "open"]
