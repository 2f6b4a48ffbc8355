from __future__ import annotations

import pytest

from checks.review.symbols import EMPTY, code_spans, identifiers, outline, span_identifiers

SOURCES = {
    "a.py": ("import x\n@dec\nclass Order:\n    async def total(self): pass\nLIMIT = 1\n", "Order total LIMIT"),
    "a.js": ("class Order { total() {} }\nfunction run() {}\nconst f = () => 1\n", "Order total run f"),
    "a.ts": ("export interface Order {}\nexport type T = 1\nabstract class A { m() {} }\nenum E {}\n", "Order T A m E"),
    "a.tsx": ("export const View = () => <div/>\nexport function App() { return <a/> }\n", "View App"),
    "a.go": ("package a\ntype Order struct{}\nfunc (o *Order) Total() {}\nfunc Run() {}\n", "Order Total Run"),
    "A.java": ("class Order { Order() {} int total() { return 1; } }\nrecord R(int a) {}\n", "Order total R"),
    "a.rs": (
        "pub struct Order;\nimpl Order { fn total(&self) {} }\ntrait T {}\nmacro_rules! m { () => {} }\n",
        "Order total T m",
    ),
    "a.c": ("#define LIMIT 1\nstruct order { int a; };\nstatic int *total(int a) { return 0; }\n", "LIMIT order total"),
    "a.cpp": ("namespace n { class Order { int t() { return 1; } }; }\nvoid n::Order::total() {}\n", "n Order t total"),
    "a.cs": ("namespace N { class Order { int Total() { return 1; } } interface I {} }\n", "Order Total I"),
    "a.rb": ("module M\n class Order\n  def total; end\n  def self.run; end\n end\nend\n", "M Order total run"),
    "a.php": ("<?php\nclass Order { const MAX = 1; function total() {} }\nfunction run() {}\n", "Order MAX total run"),
    "a.kt": ("class Order {\n  fun total() {}\n}\nobject O\nconst val MAX = 1\n", "Order total O MAX"),
}


@pytest.mark.parametrize("path", SOURCES)
def test_definitions_are_found_in_every_language_that_is_read(path: str) -> None:
    text, names = SOURCES[path]
    assert {d.name for d in outline(path, text).definitions} == set(names.split())


def test_a_decorator_and_an_export_belong_to_what_they_stand_before() -> None:
    (order, *_) = outline("a.py", SOURCES["a.py"][0]).named("Order")
    assert (order.start_line, order.end_line) == (2, 4)


def test_the_definitions_around_a_line_come_innermost_first() -> None:
    text = "class A:\n    def m(self):\n        x = 1\n        return x\n\n    y = 2\n"
    assert [d.name for d in outline("a.py", text).around(3, 4)] == ["m", "A"]
    assert [d.name for d in outline("a.py", text).around(6, 6)] == ["A"]


def test_broken_and_unknown_sources_give_what_they_have_and_never_fail() -> None:
    assert [d.name for d in outline("a.py", "def f(:\n\ndef g():\n    pass\n").definitions][-1:] == ["g"]
    assert outline("a.unknown", "class A: pass") == EMPTY
    assert outline("a.py", "\ud800 = 1") is not None
    assert outline("a.py", "(" * 20_000).definitions == ()


def test_the_names_a_remark_speaks_of_are_read_from_code_spans_first() -> None:
    text = "The `db.fetchOne()` call ignores retry_count; `if` and `x` mean nothing.\n```\nfenced_name()\n```"
    assert identifiers(text) == ("fetchOne", "retry_count")
    assert [span for _, span in code_spans(text)] == ["db.fetchOne()", "if", "x"]


@pytest.mark.parametrize(
    ("span", "names"),
    [
        ("Order.total()", ("Order", "total")),
        ("self.sum_lines", ("sum_lines",)),
        ("a + b", ()),
        ("null", ()),
        ("std::vector", ("std", "vector")),
        ("--flag", ()),
        ("src/a.py", ()),
    ],
)
def test_only_a_span_that_is_a_name_is_searched_for_as_one(span: str, names: tuple[str, ...]) -> None:
    assert span_identifiers(span) == names
