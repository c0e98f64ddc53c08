"""Looking into the settings models: which keys exist, and what kind of value each one takes."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from coven.settings.models import Section, Settings

FILE_SUFFIX = "_file"


class Kind(StrEnum):
    """Shape of a value."""

    SECTION = "a table"
    SECTION_LIST = "an array of tables"
    SECTION_MAP = "a table of tables"
    SECRET = "a secret text"  # noqa: S105 - a description
    SECRET_LIST = "a list of secret texts"  # noqa: S105 - a description
    TEXT_LIST = "a list of texts"
    TEXT = "text"
    CHOICE = "one of a few words"
    PATH = "a path"
    PATH_LIST = "a list of paths"
    BOOL = "true or false"
    INT = "a whole number"
    FLOAT = "a number"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a key takes: its kind, the model below it, and the allowed words."""

    kind: Kind
    section: type[Section] | None = None
    words: tuple[str, ...] = ()


def shape_of(section: type[Section], name: str) -> Shape:
    """The shape of a known field. Raises ``KeyError`` for an unknown one."""
    return _shape(section.model_fields[name].annotation)


def _shape(annotation: Any) -> Shape:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _shape(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _union([_shape(a) for a in get_args(annotation) if a is not type(None)])
    if origin is Literal:
        return Shape(Kind.CHOICE, words=tuple(str(word) for word in get_args(annotation)))
    if origin is tuple:
        return _list_of(_shape(get_args(annotation)[0]))
    if origin is dict:
        return Shape(Kind.SECTION_MAP, section=_shape(get_args(annotation)[1]).section)
    return _plain(annotation)


def _plain(annotation: Any) -> Shape:
    if issubclass(annotation, Section):
        return Shape(Kind.SECTION, section=annotation)
    if issubclass(annotation, StrEnum):
        return Shape(Kind.CHOICE, words=tuple(str(word) for word in annotation))
    kinds = {SecretStr: Kind.SECRET, bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT}
    if issubclass(annotation, Path):
        return Shape(Kind.PATH)
    return Shape(kinds.get(annotation, Kind.TEXT))


def _union(members: list[Shape]) -> Shape:
    words = tuple(word for member in members for word in member.words)
    return Shape(members[0].kind, members[0].section, words)


def _list_of(member: Shape) -> Shape:
    kinds = {
        Kind.SECTION: Kind.SECTION_LIST,
        Kind.SECRET: Kind.SECRET_LIST,
        Kind.PATH: Kind.PATH_LIST,
    }
    return Shape(kinds.get(member.kind, Kind.TEXT_LIST), section=member.section)


def secret_of(section: type[Section], name: str) -> str | None:
    """The secret that ``<secret>_file`` stands for, when ``name`` is such a key."""
    bare = name.removesuffix(FILE_SUFFIX)
    if bare == name or name in section.model_fields or bare not in section.model_fields:
        return None
    return bare if shape_of(section, bare).kind in (Kind.SECRET, Kind.SECRET_LIST) else None


def keys_of(section: type[Section]) -> list[str]:
    """Every key of a section, with the ``*_file`` form of its secrets."""
    names = list(section.model_fields)
    return names + [f"{n}{FILE_SUFFIX}" for n in names if secret_of(section, f"{n}{FILE_SUFFIX}")]


def walk(section: type[Section] = Settings, prefix: str = "") -> Iterator[tuple[str, Shape]]:
    """Every key below a section as ``a.b.c``, the ones inside array tables as ``a[].b``."""
    marks = {Kind.SECTION: "", Kind.SECTION_LIST: "[]", Kind.SECTION_MAP: '."owner/name"'}
    for name in section.model_fields:
        shape = shape_of(section, name)
        yield f"{prefix}{name}", shape
        if shape.section is not None:
            yield from walk(shape.section, f"{prefix}{name}{marks[shape.kind]}.")


def nearest(name: str, known: Mapping[str, object] | list[str]) -> str | None:
    """The known key that ``name`` was probably meant to be."""
    folded = {key.casefold(): key for key in known}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.5)
    return folded[close[0]] if close else None
