"""The outline of a source file, the definition around a line, the identifiers that a remark speaks of. Pure.

A file in a language without a grammar has an empty outline: that says nothing about what it defines. Lines count
from 1, ends are inclusive. Knows nothing of repositories and nothing of meaning: a name is a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node, Parser, QueryCursor, Tree

from checks.review.languages import IMPORTS, Grammar, grammar_of
from checks.review.types import Definition

LARGEST = 2_000_000
"""Files of more bytes are not parsed; their outline is empty."""

_WRAPPERS = frozenset({"decorated_definition", "export_statement", "template_declaration", "ambient_declaration"})
_NAMED = frozenset(
    {
        *("identifier", "field_identifier", "type_identifier", "namespace_identifier", "operator_name"),
        *("destructor_name", "qualified_identifier", "property_identifier"),
    }
)
_SCOPES = frozenset({"class", "function", "method", "interface", "struct", "enum", "module", "property", "macro"})

_CODE_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]{1,200}?)\1(?!`)")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_DOTTED = re.compile(r"[@$#&*]?[^\W\d][\w$]*(?:(?:\?\.|\.|::|->|#)[^\W\d][\w$]*)*(?:\(\)|!)?")
_TELLING = re.compile(r"\b(?:[a-z]+(?:_[a-z0-9]+)+|[A-Z]+(?:_[A-Z0-9]+)+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)\b")
_RESERVED_TEXT = """
abstract and any array as assert async await bool boolean break byte case catch char class const continue def
default defer del delete do double elif else end enum except export extends extern false final finally float fn for
foreach from func function get global go goto if impl implements import in include instanceof int interface is
lambda let list long loop map match mod module mut namespace new nil none not null number object of operator or
override package pass private protected pub public raise range ref require rescue return select self set short
signed sizeof static str string struct super switch then this throw throws trait true try tuple type typedef
typeof undefined union unless unsafe unsigned until use using val var virtual void volatile when where while with
yield dict todo http https url json yaml sql html css utf api ok error exception
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file defines, in the order of its lines, and the line ranges of its imports."""

    definitions: tuple[Definition, ...] = ()
    imports: tuple[tuple[int, int], ...] = ()

    def named(self, name: str) -> tuple[Definition, ...]:
        return tuple(d for d in self.definitions if d.name == name)

    def around(self, start: int, end: int) -> tuple[Definition, ...]:
        """The definitions that hold a line range, innermost first; constants do not count as surroundings."""
        holding = [d for d in self.definitions if d.kind in _SCOPES and d.start_line <= start and d.end_line >= end]
        return tuple(sorted(holding, key=lambda d: (d.end_line - d.start_line, -d.start_line)))


EMPTY = Outline()


def outline(path: str, text: str) -> Outline:
    """Parse one file. Errors in the source leave the rest readable, as tree-sitter recovers."""
    grammar = grammar_of(path)
    data = text.encode("utf-8", "replace")
    if grammar is None or len(data) > LARGEST:
        return EMPTY
    # A parser keeps state while it works, so it is not shared; making one costs microseconds.
    tree = Parser(grammar.language).parse(data)
    found = {(d.name, d.kind, d.start_line, d.end_line): d for d in _definitions(grammar, tree, path)}
    ordered = sorted(found.values(), key=lambda d: (d.start_line, -d.end_line, d.name))
    return Outline(tuple(_one_kind(ordered)), tuple(_imports(grammar, tree.root_node)))


def _definitions(grammar: Grammar, tree: Tree, path: str) -> Iterator[Definition]:
    for _, captures in QueryCursor(grammar.definitions).matches(tree.root_node):
        kind = next(key for key in captures if key not in {"name", "declarator"})
        node = captures[kind][0]
        named: list[Node | None] = [*captures.get("name", ()), *(_declared(n) for n in captures.get("declarator", ()))]
        for name in named:
            if name is None or name.text is None:
                continue
            text = name.text.decode("utf-8", "replace").rpartition("::")[2].lstrip("$")
            start, end = _lines(_whole(node))
            yield Definition(name=text, kind=kind, path=path, start_line=start, end_line=end)


def _declared(node: Node) -> Node | None:
    """The name inside a C declarator: pointers and parameter lists wrap it."""
    current: Node | None = node
    while current is not None and current.type not in _NAMED:
        inner = current.child_by_field_name("declarator")
        current = inner if inner is not None else next(iter(current.named_children), None)
    return current


def _whole(node: Node) -> Node:
    """A definition with its decorators, its `export`, its template head."""
    parent = node.parent
    while parent is not None and parent.type in _WRAPPERS:
        node, parent = parent, parent.parent
    return node


def _lines(node: Node) -> tuple[int, int]:
    start, end = node.start_point, node.end_point
    # A node that ends with a line break ends at column 0 of the next line.
    last = end.row if end.column == 0 and end.row > start.row else end.row + 1
    return start.row + 1, last


def _one_kind(definitions: Iterable[Definition]) -> Iterator[Definition]:
    """`const f = () => ...` is a function and a constant by the queries: the function is meant."""
    seen: dict[tuple[str, int], Definition] = {}
    for definition in definitions:
        key = (definition.name, definition.start_line)
        if key not in seen or seen[key].kind == "constant":
            seen[key] = definition
    yield from seen.values()


def _imports(grammar: Grammar, root: Node) -> Iterator[tuple[int, int]]:
    for node in root.named_children:
        if node.type in IMPORTS or (grammar.imports_by_call and _requires(node)):
            yield _lines(node)


def _requires(node: Node) -> bool:
    method = node.child_by_field_name("method") if node.type == "call" else None
    return method is not None and method.text in {b"require", b"require_relative", b"load", b"autoload"}


def code_spans(text: str) -> list[tuple[int, str]]:
    """The inline code of a remark as (offset, code), fenced blocks left out."""
    plain = _FENCE.sub(lambda match: " " * len(match.group()), text)
    return [(match.start(), match.group(2).strip()) for match in _CODE_SPAN.finditer(plain)]


def span_identifiers(span: str) -> tuple[str, ...]:
    """The names in one inline code span that is nothing but a (dotted) name or a call without arguments."""
    if _DOTTED.fullmatch(span) is None:
        return ()
    return tuple(name for name in _IDENTIFIER.findall(span) if telling(name))


def telling(name: str) -> bool:
    """Whether a name is worth searching: three characters or more, no keyword, not all underscores."""
    return len(name) >= 3 and name.lower() not in _RESERVED and bool(name.strip("_"))


def identifiers(text: str, *, most: int = 40) -> tuple[str, ...]:
    """What a remark names, most certain first: inline code, then words in the shape of code (`snake_case`,
    `camelCase`). Without doubles, keywords left out."""
    marked = [name for _, span in code_spans(text) for name in _IDENTIFIER.findall(span)]
    shaped = _TELLING.findall(_FENCE.sub(" ", text))
    return tuple(dict.fromkeys(name for name in [*marked, *shaped] if telling(name)))[:most]


def nearest_definitions(symbols: Sequence[str], outlined: Outline) -> tuple[Definition, ...]:
    """Definitions in one file of the given names, in the order of the names."""
    return tuple(definition for symbol in symbols for definition in outlined.named(symbol))
