"""What every section of the configuration shares: strictness, names, paths, and errors about combinations of keys.

Paths are resolved by a `PathReader` in pydantic's validation context; without one they stay as given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Protocol, TypeVar, cast, get_args, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError


@runtime_checkable
class PathReader(Protocol):
    """What the loader lends to validation: where relative paths start, and whether a file can be read."""

    def resolve(self, path: Path) -> Path: ...

    def unreadable(self, path: Path) -> str:
        """Why the file cannot be read, or ""."""
        ...


@dataclass(frozen=True, slots=True)
class Conflict:
    """Values of one section that cannot go together: why, with the remedy, and the keys, the one to point at first."""

    why: str
    keys: tuple[str, ...]


def impossible(*conflicts: Conflict) -> PydanticCustomError:
    """The error a validator raises about conflicts within its section."""
    why = "; ".join(conflict.why for conflict in conflicts)
    return PydanticCustomError("impossible", "{why}", {"why": why, "conflicts": conflicts})


def resolved(path: Path, info: ValidationInfo) -> Path:
    return info.context.resolve(path) if isinstance(info.context, PathReader) else path


def _readable(path: Path, info: ValidationInfo) -> Path:
    why = info.context.unreadable(path) if isinstance(info.context, PathReader) else ""
    if why:
        raise PydanticCustomError("unreadable", "{why}", {"why": why})
    return path


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]

AnyPath = Annotated[Path, AfterValidator(resolved)]

ReadablePath = Annotated[Path, AfterValidator(resolved), AfterValidator(_readable)]


class Strict(BaseModel):
    """Base of every section: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        use_attribute_docstrings=True,
        # Sections are only ever built as parts of the whole: building each validator by itself doubles the start.
        defer_build=True,
        allow_inf_nan=False,
        # A key such as `model` or `model_path` is ordinary here.
        protected_namespaces=(),
        # A failed validation may hold secrets.
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:
        """A key with nothing after it (all its lines commented out, or `${UNSET:-}`) is as good as not written.

        Keys whose value may be nothing (`temperature`) keep it.
        """
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in _filled_keys(cls)}


_Section = TypeVar("_Section", bound=Strict)


def by_default(section: type[_Section]) -> _Section:
    """The default of a key that holds a section: that section with its own defaults.

    It is filled in with the whole configuration, not built beforehand, which would take most of the start.
    """
    filled: Any = Field(default_factory=dict)
    return cast(_Section, filled)


@cache
def _filled_keys(section: type[Strict]) -> frozenset[str]:
    """Keys of a section that cannot be null."""
    return frozenset(name for name, field in section.model_fields.items() if NoneType not in get_args(field.annotation))
