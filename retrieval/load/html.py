"""HTML pages: what a reader sees, with the headings as sections.

Left out: scripts, styles, comments, navigation, form controls, and whatever the page itself hides from its readers
(`hidden`, `aria-hidden`, `display: none`, zero sizes, far off the screen): hidden text is where instructions to models
are planted. Rules in style sheets are not applied, since they also hide what a click shows.

Knows nothing of files but how to read one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from retrieval.load.base import MAX_BYTES, Content, build_document, public_url, read_bytes
from retrieval.load.clean import clean_line, decode
from retrieval.load.outline import Outline, table_row
from retrieval.load.text import read_text
from retrieval.types import Document

_SKIPPED = """script style template noscript iframe object embed applet canvas svg math audio video map nav select
datalist button input textarea head title meta link frameset noframes"""
_PARAGRAPHS = """p div section article main aside header footer ul ol dl table blockquote figure form fieldset details
pre hr address menu hgroup search center body"""
_LINES = "li dt dd tr br caption figcaption summary legend option thead tbody tfoot"
SKIPPED = frozenset(_SKIPPED.split())
PARAGRAPHS = frozenset(_PARAGRAPHS.split())
LINES = frozenset(_LINES.split())
HEADINGS = {f"h{level}": level for level in range(1, 7)}
CELLS = ("td", "th")
MAX_ROW = 20_000

_HIDDEN_STYLE = re.compile(
    r"(?:^|;)(?:display:none|visibility:(?:hidden|collapse)|opacity:0*\.?0*(?=;|!|$)|font-size:0*\.?0*(?:px|pt|em|rem|%)?(?=;|!|$)"
    r"|content-visibility:hidden|(?:left|top|right|bottom|text-indent|margin-left|margin-top):-\d{4,}|clip:rect\(0|clip-path:inset\((?:50|100)%"
    r"|transform:scale\(0\))",
    re.IGNORECASE,
)
_ZERO_BOX = re.compile(r"(?:^|;)(?:max-)?(?:height|width):0*\.?0*(?:px|pt|em|rem|%)?(?=;|!|$)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CSS_NOISE = re.compile(r"/\*.*?\*/|\s+", re.DOTALL)


class HtmlLoader:
    """HTML files, one document each; the address is the canonical link or the page's base."""

    suffixes: tuple[str, ...] = (".html", ".htm", ".xhtml")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The page as one document; raises `LoadError`."""
        data = read_bytes(path, self._max_bytes)
        declared = _META_CHARSET.search(data[:4096])
        text = decode(data, declared[1].decode("ascii") if declared else "")
        content = read_page(read_text(path, self._max_bytes) if text is None else text)
        return [build_document(path, root, content)]


def read_page(html: str) -> Content:
    """The visible text of a page or of a fragment. Never raises: HTML has no syntax errors."""
    tree = LexborHTMLParser(html.replace("\0", ""))
    outline = Outline()
    body = tree.body or tree.root
    if body is not None:
        _walk(body, outline)
    title = tree.css_first("title")
    name = clean_line(title.text() or "") if title else ""
    first = next((section.heading[0] for section in outline.sections), "")
    return Content(text=outline.text, format="html", title=name or first, url=_address(tree), sections=outline.sections)


def _address(tree: LexborHTMLParser) -> str | None:
    base_node = tree.css_first("base[href]")
    base = (base_node.attributes.get("href") or "") if base_node else ""
    canonical = tree.css_first('link[rel~="canonical" i][href]')
    for candidate in ((canonical.attributes.get("href") or "") if canonical else "", base):
        try:
            url = public_url(urljoin(base, candidate)) if candidate else None
        except ValueError:
            url = None
        if url:
            return url
    return None


def _walk(root: LexborNode, outline: Outline) -> None:
    """In reading order without recursion: pages can be nested deeper than the interpreter's stack."""
    stack: list[tuple[LexborNode, bool]] = [(root, False)]
    numbers: dict[int, int] = {}
    while stack:
        node, leaving = stack.pop()
        tag = node.tag or ""
        if leaving:
            _border(node, tag, outline)
            continue
        if tag == "-text":
            outline.words(node.text_content or "")
            continue
        if not _is_shown(node, tag):
            continue
        if _take_whole(node, tag, outline):
            continue
        _border(node, tag, outline)
        if tag == "li":
            outline.item(_mark(node, numbers))
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(_children(node)))


def _mark(item: LexborNode, numbers: dict[int, int]) -> str:
    """A dash, or the item's number in an ordered list; `numbers` counts each list, by its address in the tree."""
    parent = item.parent
    if parent is None or parent.tag != "ol":
        return "-"
    if parent.mem_id not in numbers:
        start = parent.attributes.get("start") or "1"
        numbers[parent.mem_id] = int(start) if start.isdecimal() and len(start) < 10 else 1
    else:
        numbers[parent.mem_id] += 1
    return f"{numbers[parent.mem_id]}."


def _border(node: LexborNode, tag: str, outline: Outline) -> None:
    if tag in ("ul", "ol") and node.parent is not None and node.parent.tag == "li":
        outline.line()
    elif tag in PARAGRAPHS:
        outline.paragraph()
    elif tag in LINES:
        outline.line()
    elif tag in CELLS:
        outline.words(" ")


def _is_shown(node: LexborNode, tag: str) -> bool:
    if tag in SKIPPED or (not node.is_element_node and not node.is_document_node):
        return False
    attributes = node.attributes
    if not attributes:
        return True
    if "hidden" in attributes or (attributes.get("aria-hidden") or "").strip().lower() == "true":
        return False
    style = _CSS_NOISE.sub("", attributes.get("style") or "")
    if not style:
        return True
    clipped = "overflow:hidden" in style.lower() and _ZERO_BOX.search(style)
    return not clipped and not _HIDDEN_STYLE.search(style)


def _take_whole(node: LexborNode, tag: str, outline: Outline) -> bool:
    """Elements whose text is needed at once: headings, preformatted text, and tables that hold no other blocks."""
    if tag in HEADINGS:
        outline.heading(HEADINGS[tag], _inline_text(node))
        return True
    if tag in ("pre", "listing", "xmp"):
        outline.paragraph()
        outline.verbatim(_inline_text(node))
        outline.paragraph()
        return True
    if tag == "table" and node.css_first("table table, td h1, td h2, td h3, td p + p, td ul, td ol, td pre") is None:
        outline.paragraph()
        _table(node, outline)
        outline.paragraph()
        return True
    return False


def _inline_text(node: LexborNode) -> str:
    """The shown text below a node as it stands; a `br` is a line break."""
    parts: list[str] = []
    stack = [node]
    while stack:
        current = stack.pop()
        tag = current.tag or ""
        if tag == "-text":
            parts.append(current.text_content or "")
        elif tag == "br":
            parts.append("\n")
        elif _is_shown(current, tag):
            if tag in ("p", "div", "td", "th", "li"):
                parts.append(" ")
            stack.extend(reversed(_children(current)))
    return "".join(parts)


def _table(table: LexborNode, outline: Outline) -> None:
    header: list[str] = []
    for position, row in enumerate(table.css("tr")):
        if not all(_is_shown(node, node.tag or "") for node in (row, row.parent) if node is not None):
            continue
        cells = [cell for cell in _children(row) if cell.tag in CELLS and _is_shown(cell, cell.tag)]
        texts = [clean_line(_inline_text(cell)) for cell in cells]
        if not any(texts):
            continue
        if not header and position == 0 and len(cells) > 1 and all(cell.tag == "th" for cell in cells):
            header = texts
            continue
        outline.line()
        outline.words(table_row(header, texts)[:MAX_ROW])
    if header and not table.css("td"):
        outline.words(table_row((), header))
    caption = table.css_first("caption")
    if caption is not None and _is_shown(caption, "caption"):
        outline.line()
        outline.words(_inline_text(caption))


def _children(node: LexborNode) -> list[LexborNode]:
    children = []
    child = node.first_child
    while child is not None:
        children.append(child)
        child = child.next
    return children
