"""What pydantic found wrong, as problems with a place, plain words and a remedy. Pure.

Knows the shape of the models, so that an unknown key gets the nearest known one, and a missing key what it is for.
Never shows what a variable held, nor a value under a key that holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from gateway.config.base import Conflict
from gateway.config.problems import Path, listed, suggestion
from gateway.config.source import Source
from gateway.redact import redact

_SECRET_KEYS: Final = frozenset(
    {
        "api_key",
        "database_url",
        "redis_url",
        "secret",
        "headers",
        "proxy",
        "sha256",
        "options",
        "token",
        "deploy_key_passphrase",
    }
)
_NAME_RULE: Final = (
    "is no name; use lower-case letters, digits, `.`, `_` and `-`, beginning with a letter or digit, at most 63 in all"
)
# What a value of the wrong kind should have been, by pydantic's error type.
_KINDS: Final[Mapping[str, str]] = {
    "string_type": "must be a text; put it in quotes",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number of a sensible size",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be `true` or `false`",
    "bool_parsing": "must be `true` or `false`",
    "datetime_type": "must be a time with a zone, e.g. 2027-01-31T00:00:00Z",
    "datetime_parsing": "must be a time with a zone, e.g. 2027-01-31T00:00:00Z",
    "datetime_from_date_parsing": "must be a time with a zone, e.g. 2027-01-31T00:00:00Z",
    "timezone_aware": "must have a time zone, e.g. 2027-01-31T00:00:00Z",
    "path_type": "must be a path",
    "dict_type": "must be a section of `key: value` lines",
    "model_type": "must be a section of `key: value` lines",
    "model_attributes_type": "must be a section of `key: value` lines",
    "tuple_type": "must be a list, e.g. [one, two]",
    "list_type": "must be a list, e.g. [one, two]",
}
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}


class Explainer:
    """Turns the errors of one validation into problems of a source."""

    def __init__(self, source: Source, root: type[BaseModel]) -> None:
        self._source = source
        self._root = root

    def path(self, loc: tuple[str | int, ...]) -> Path:
        """The path in the file: pydantic's location without the tags of unions and the mark of keys."""
        path: Path = ()
        here: Any = self._source.data
        for index, part in enumerate(loc):
            if part == "[key]":
                break
            if isinstance(here, dict) and isinstance(part, str) and part not in here:
                if here.get("kind") == part and index < len(loc) - 1:
                    continue
                return (*path, part)
            path = (*path, part)
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                here = None
        return path

    def section(self, loc: tuple[str | int, ...]) -> Path:
        """The path of the section that an error about combinations is about; the tag of a union may end its place."""
        return self.path((*loc, ""))[:-1]

    def explain(self, error: ErrorDetails) -> list[tuple[Path, str]]:
        """Paths and texts for one error; several for a section with several conflicts."""
        loc = error["loc"]
        path = self.path(loc)
        if error["type"] == "impossible":
            return [self._conflict(self.section(loc), conflict) for conflict in error["ctx"]["conflicts"]]
        text = self._text(error, path)
        return [((*path, "kind") if error["type"] == "union_tag_invalid" else path, text)]

    def _conflict(self, path: Path, conflict: Conflict) -> tuple[Path, str]:
        """Points at the first of the conflicting keys that is written down."""
        for key in conflict.keys:
            if (*path, key) in self._source.marks:
                return (*path, key), conflict.why
        return path, conflict.why

    def _text(self, error: ErrorDetails, path: Path) -> str:
        kind = error["type"]
        context = error.get("ctx", {})
        if error["loc"] and error["loc"][-1] == "[key]":
            return self._key_text(kind, context, path)
        if kind == "extra_forbidden":
            return self._unknown_key(error["loc"], path)
        if kind == "missing":
            return self._missing(error["loc"])
        if kind in ("literal_error", "enum"):
            return self._choice(_words(context["expected"]), path)
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            return self._tag(kind, context, error["loc"], path)
        if kind in _BOUNDS:
            name, words = _BOUNDS[kind]
            return f"{words} {context[name]}{self._shown(path)}"
        if kind == "string_pattern_mismatch":
            return self._pattern(context["pattern"], path)
        if kind == "too_short":
            return "is empty; give at least one"
        if kind == "unreadable":
            return str(context["why"])
        if kind in _KINDS:
            return f"{_KINDS[kind]}{self._shown(path)}"
        return redact(error["msg"].removeprefix("Value error, "))

    def _key_text(self, kind: str, context: Mapping[str, Any], path: Path) -> str:
        if kind in ("literal_error", "enum"):
            known = _words(context["expected"])
            return f"unknown key{suggestion(str(path[-1]), known)}; known: {listed(known)}"
        return _NAME_RULE

    def _unknown_key(self, loc: tuple[str | int, ...], path: Path) -> str:
        key = str(path[-1])
        section = self._model(loc[:-1])
        if section is None:
            return "unknown key; remove it"
        known = list(section.model_fields)
        near = suggestion(key, known)
        if not near:
            for name, field in section.model_fields.items():
                inner = _as_model(field.annotation, "")
                if inner is not None and key in inner.model_fields:
                    near = f"; it belongs into the section `{name}`"
                    break
        return f"unknown key{near or '; remove it'}; known here: {listed(known, most=30)}"

    def _missing(self, loc: tuple[str | int, ...]) -> str:
        section = self._model(loc[:-1])
        field = section.model_fields.get(str(loc[-1])) if section else None
        about = f" ({field.description.rstrip('.')})" if field and field.description else ""
        return f"is missing{about}; add it"

    def _choice(self, known: list[str], path: Path) -> str:
        said = self._source.written.get(path, "")
        return f"must be one of {listed(known)}{self._shown(path)}{suggestion(said, known)}"

    def _tag(self, kind: str, context: Mapping[str, Any], loc: tuple[str | int, ...], path: Path) -> str:
        known = _words(context["expected_tags"]) if kind == "union_tag_invalid" else self._tags(loc)
        if kind == "union_tag_not_found":
            return f"has no `kind`; add kind: with one of {listed(known)}"
        return self._choice(known, (*path, "kind"))

    def _pattern(self, pattern: str, path: Path) -> str:
        if "https?" in pattern:
            also = "" if path[-1] == "proxy" else ", name a host, and hold no user or password"
            return f"must begin with http:// or https://{also}{self._shown(path)}"
        if "f]{64}" in pattern:
            return "must be the SHA-256 of a key, 64 hexadecimal digits; make it with `grounding-gateway keys hash`"
        return f"{_NAME_RULE}{self._shown(path)}"

    def _shown(self, path: Path) -> str:
        """ ", not `value`" with what the file says, unless that may be a secret."""
        written = self._source.written.get(path)
        if written is None or len(written) > 80 or any(part in _SECRET_KEYS for part in path):
            return ""
        return f", not `{redact(written)}`" if written else ", not nothing"

    def _model(self, loc: tuple[str | int, ...]) -> type[BaseModel] | None:
        """The model of the section at a location of pydantic's."""
        annotation: Any = self._root
        for part in loc:
            annotation = _descend(annotation, part)
        return _as_model(annotation, "")

    def _tags(self, loc: tuple[str | int, ...]) -> list[str]:
        annotation: Any = self._root
        for part in loc:
            annotation = _descend(annotation, part)
        return [str(get_args(model.model_fields["kind"].annotation)[0]) for model in _members(annotation)]


def conflict_keys(error: ErrorDetails) -> frozenset[str]:
    """All keys that take part in an error about combinations."""
    conflicts: tuple[Conflict, ...] = error.get("ctx", {}).get("conflicts", ())
    return frozenset(key for conflict in conflicts for key in conflict.keys)


def _words(expected: str) -> list[str]:
    """The choices in pydantic's own list, `'a', 'b' or 'c'`."""
    return [word.strip("' ") for word in expected.replace(" or ", ", ").split(",")]


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The models among an annotation's alternatives."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    return [model for argument in arguments for model in _members(argument)]


def _as_model(annotation: Any, tag: str) -> type[BaseModel] | None:
    """The model an annotation stands for: the only one, or of several the one whose `kind` is `tag`."""
    if get_origin(annotation) in (dict, tuple):
        return None
    models = _members(annotation)
    for model in models:
        kind = model.model_fields.get("kind")
        if kind is not None and tag in get_args(kind.annotation):
            return model
    return models[0] if len(models) == 1 else None


def _descend(annotation: Any, part: str | int) -> Any:
    """The annotation one step into a location: a field, a dict's value, a list's item, or a union's alternative."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0]
    models = _members(annotation)
    if len(models) > 1:
        return _as_model(annotation, str(part))
    if models and part in models[0].model_fields:
        return models[0].model_fields[str(part)].annotation
    return None
