"""Small reviews in every format, written for these tests, each with the issues it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A review, its format, and (path, first line, last line, title) of each issue."""

    format: str
    text: str
    issues: tuple[tuple[str | None, int | None, int | None, str], ...]
    repo_root: str | None = None


SARIF = Sample(
    "sarif",
    """{
  "version": "2.1.0",
  "runs": [{
    "originalUriBaseIds": {"ROOT": {"uri": "file:///build/"}, "LIB": {"uri": "lib%20a/", "uriBaseId": "ROOT"}},
    "tool": {"driver": {"name": "t", "rules": [
      {"id": "R1", "shortDescription": {"text": "Leak"}, "messageStrings": {"m": {"text": "{0} leaks"}}},
      {"id": "R2", "defaultConfiguration": {"level": "error"}}]}},
    "artifacts": [{"location": {"uri": "src/a%20b.c", "uriBaseId": "ROOT"}}],
    "results": [
      {"ruleId": "R1", "ruleIndex": 0, "message": {"id": "m", "arguments": ["fd"]}, "suppressions": [],
       "locations": [{"physicalLocation": {"artifactLocation": {"index": 0},
                                           "region": {"startLine": 4, "startColumn": 2}}},
                     {"physicalLocation": {"artifactLocation": {"uri": "z.c"}, "region": {"startLine": 9}}}]},
      {"ruleId": "R9", "kind": "pass", "message": {"text": "fine"}},
      {"ruleId": "R2", "message": {"text": "Wrong base, café."},
       "locations": [{"physicalLocation": {"artifactLocation": {"uri": "x.c", "uriBaseId": "LIB"},
                                           "region": {"startLine": 7, "endLine": 5}}}]}
    ]
  }]
}
""",
    (("src/a b.c", 4, 4, "Leak"), ("lib a/x.c", 5, 7, "R2")),
)
RDJSON = Sample(
    "rdjson",
    '{"severity": "ERROR", "diagnostics": [\n'
    '  {"message": "Off by one", "location": {"path": "a.go", "range": {"start": {"line": 3, "column": 1}, '
    '"end": {"line": 5, "column": 1}}}, "code": {"value": "obo"}},\n'
    '  {"message": "No unit", "location": {"path": "b.go"}, "severity": "INFO"}\n]}\n',
    (("a.go", 3, 4, "obo"), ("b.go", None, None, "")),
)
RDJSONL = Sample(
    "rdjsonl",
    '{"message": "One", "location": {"path": "a.rb", "range": {"start": {"line": 3}}}}\n'
    '{"message": "Two", "location": {"path": "b.rb", "range": {"start": {"line": 8}, "end": {"line": 9}}}}\n',
    (("a.rb", 3, 3, ""), ("b.rb", 8, 9, "")),
)
GITHUB = Sample(
    "github",
    '{"event": "REQUEST_CHANGES", "body": "Two things.", "comments": [\n'
    '  {"path": "a.ts", "start_line": 2, "start_side": "RIGHT", "line": 4, "side": "RIGHT",\n'
    '   "body": "**Stale price**\\n\\nIt is read twice.\\n\\n'
    '````suggestion\\nconst p = `x`;\\n```\\ny();\\n````\\n"},\n'
    '  {"path": "old.ts", "line": 7, "side": "LEFT", "body": "The guard went away."}\n]}\n',
    (("a.ts", 2, 4, "Stale price"), ("old.ts", 7, 7, "")),
)
GITLAB = Sample(
    "gitlab",
    '[{"note": "Never ends.", "position": {"new_path": "j.py", "old_path": "i.py", "new_line": 6}},\n'
    ' {"body": "Still needed.", "position": {"new_path": "j.py", "old_path": "i.py", '
    '"new_line": null, "old_line": 5}}]\n',
    (("j.py", 6, 6, ""), ("i.py", 5, 5, "")),
)
QUALITY = Sample(
    "codequality",
    '[{"description": "Too long", "check_name": "len", "fingerprint": "f1", "severity": "major", '
    '"location": {"path": "q.py", "lines": {"begin": 2, "end": 30}}}]\n',
    (("q.py", 2, 30, "len"),),
)
CODEX = Sample(
    "codex",
    '{"findings": [\n {"title": "[P0] Keys collide", "body": "Tenants share them.", "confidence_score": 0.9, '
    '"priority": 0,\n "code_location": {"absolute_file_path": "/box/repo/s/c.py", '
    '"line_range": {"start": 2, "end": 3}}},\n'
    ' {"title": "Old comment", "body": "Says memory.", "priority": 3, '
    '"code_location": {"absolute_file_path": "/box/repo/s/b.py", "line_range": {"start": 5, "end": 5}}}\n],\n'
    '"overall_correctness": "patch is incorrect", "overall_explanation": "Keys.", "overall_confidence_score": 0.8}\n',
    (("s/c.py", 2, 3, "Keys collide"), ("s/b.py", 5, 5, "Old comment")),
    "/box/repo",
)
PR_AGENT = Sample(
    "pr-agent",
    """review:
  estimated_effort_to_review_[1-5]: |
    3
  key_issues_to_review:
    - relevant_file: |
        m/q.py
      issue_header: Lost: ack first
      issue_content: |
        Acknowledged before it is sent: gone.
        ```python
        - not: yaml
        ```
      start_line: 7
      end_line: 9
    - relevant_file: 'm/r.py'
      issue_header: "Delay"
      issue_content: It grows: # for ever
      start_line: '3'
      end_line: 3
  security_concerns: |
    No
""",
    (("m/q.py", 7, 9, "Lost: ack first"), ("m/r.py", 3, 3, "Delay")),
)
CODERABBIT = Sample(
    "coderabbit",
    """**Actionable comments posted: 1**

<details>
<summary>🧹 Nitpick comments (2)</summary><blockquote>

<details>
<summary>lib/p.js (1)</summary><blockquote>

`8-9`: **Return early.**

It nests.

</blockquote></details>
<details>
<summary>lib/q.js (1)</summary><blockquote>

`4`: _⚡ Refactor suggestion_ | _🟠 Major_ | _⚡ Quick win_

**Name it.**

Unclear.

<details>
<summary>🤖 Prompt for AI Agents</summary>

```
In lib/q.js around lines 4-4: name it.
```

</details>

</blockquote></details>

</blockquote></details>

In `lib/s.js` around lines 44-52:

_⚠️ Potential issue_ | _🔴 Critical_

**Released twice.**

It throws.
""",
    (("lib/p.js", 8, 9, "Return early."), ("lib/q.js", 4, 4, "Name it."), ("lib/s.js", 44, 52, "Released twice.")),
)
HEADINGS = Sample(
    "markdown",
    """# Review

### src/b.rs:10-14 — Edges swapped

**Severity:** Major

Inside out:

````
### src/no.rs:1 — not an issue
```
````

### 2. Dead import (`src/m.rs:9`)

`HashMap` is unused.

## What I liked

- src/t.rs:3 covers the poles.
""",
    (("src/b.rs", 10, 14, "Edges swapped"), ("src/m.rs", 9, 9, "Dead import")),
)
BULLETS = Sample(
    "markdown",
    """I found 2 issues:

1. **Null deref** (`src/a.py:12`): `user` may be None.
   It comes from the cache.
2. `src/b.py:30-31` - [High] The lock is never released

Everything else looks fine.
""",
    (("src/a.py", 12, 12, "Null deref"), ("src/b.py", 30, 31, "The lock is never released")),
)
GROUPS = Sample(
    "markdown",
    """## Findings

### 1. Race in the pool

- **Severity:** High
- **File:** `src/pool.py`
- **Lines:** 10-12
- **Issue:** Two threads may pass.
- **Fix:** Take the lock first.

### 2. Typo

- **Severity:** Low
- **File:** `src/name.py:3`
- **Issue:** `lenght`
""",
    (("src/pool.py", 10, 12, "Race in the pool"), ("src/name.py", 3, 3, "Typo")),
)
TERMINAL = Sample(
    "markdown",
    """============
File: src/a.js
Line: 4 to 6
Type: potential_issue

Comment:
The value is stale.
============
File: src/b.js
Line: 9
Type: nitpick

Comment:
Name it.
""",
    (("src/a.js", 4, 6, ""), ("src/b.js", 9, 9, "")),
)
TABLE = Sample(
    "markdown",
    """| Severity | File | Line | Issue |
|---|---|---|---|
| High | `a/x.py` | 4-6 | `a \\| b` is wrong |
| Low | a/y.py | 9 | Unused |
""",
    (("a/x.py", 4, 6, "`a | b` is wrong"), ("a/y.py", 9, 9, "Unused")),
)
PIPES = Sample(
    "pipe-rows",
    "SEVERITY | FILE | LINE | TITLE | EVIDENCE\n"
    "HIGH | a/x.py | 4 | Shell injection | cat x | sh runs input | twice\n"
    "low | a/y.py | 8-9 | Unused | y = 1\n",
    (("a/x.py", 4, 4, "Shell injection"), ("a/y.py", 8, 9, "Unused")),
)
PERMALINKS = Sample(
    "permalinks",
    """Found 3 issues:

1. The lock is taken late

https://git.example.org/o/r/blob/0123456789abcdef0123456789abcdef01234567/w/l.py#L3-L6

2. `x` is text (rule: "numbers")

https://git.example.org/o/r/-/blob/0123456789abcdef0123456789abcdef01234567/w/m%20n.py#L8

3. Never read

https://git.example.org/o/r/blob/0123456789abcdef0123456789abcdef01234567/w/l.py#L9-L9
""",
    (("w/l.py", 3, 6, "The lock is taken late"), ("w/m n.py", 8, 8, '`x` is text (rule: "numbers")'),
     ("w/l.py", 9, 9, "Never read")),
)  # fmt: skip
LOOSE = Sample(
    "json",
    """Here is what I found:

```json
{"summary": "Two issues.", "total": 2, "counts": {"high": 1, "low": 1}, "verdict": "REQUEST_CHANGES", "issues": [
  {"file": "./src/a.py", "lines": "12-14", "severity": "high", "title": "Open handle",
   "description": "Use\n```python\nwith open(x) as f: ...\n```\ninstead.", "suggestion": "with open(x) as f:"},
  {"path": "src\\\\b.py", "line": "7", "severity": "low", "message": "Unused {name} [here]"},
]}
```

That is all.
""",
    (("src/a.py", 12, 14, "Open handle"), ("src/b.py", 7, 7, "")),
)
LIST = Sample(
    "json",
    '[{"file": "a.py", "line": 0, "severity": "info", "title": "No docs"}, {"file": "b.py", "line": [3, 5], '
    '"title": "Ünïcode", "comment": "Straße → \\u00e9 \\ud83d\\ude00"}]',
    (("a.py", None, None, "No docs"), ("b.py", 3, 5, "Ünïcode")),
)
CHECKSTYLE = Sample(
    "checkstyle",
    """<?xml version="1.0" encoding="UTF-8"?>
<checkstyle version="1">
  <file name="src/é.js">
    <error line="3" column="1" severity="error" message="a &lt; b &amp; c" source="r.one"/>
    <error line="9" severity="warning" message='say "no"' source="r.two"></error>
  </file>
  <file name="src/b.js">
    <error line="1" severity="info" message="ok?" source="r.one"/>
  </file>
</checkstyle>
""",
    (("src/é.js", 3, 3, "r.one"), ("src/é.js", 9, 9, "r.two"), ("src/b.js", 1, 1, "r.one")),
)
WORKFLOW = Sample(
    "workflow",
    "::error file=src/a.py,line=3,endLine=5,title=Leak::fd is%0Anever closed\n"
    "done\n"
    "::warning file=src/b%2Cc.py,line=9::100%25 slow\n",
    (("src/a.py", 3, 5, "Leak"), ("src/b,c.py", 9, 9, "")),
)
ALL = {
        "sarif": SARIF, "rdjson": RDJSON, "rdjsonl": RDJSONL, "github": GITHUB, "gitlab": GITLAB, "quality": QUALITY,
        "codex": CODEX, "pr_agent": PR_AGENT, "coderabbit": CODERABBIT, "headings": HEADINGS, "bullets": BULLETS,
        "groups": GROUPS, "terminal": TERMINAL, "table": TABLE, "pipes": PIPES, "permalinks": PERMALINKS,
        "loose": LOOSE, "list": LIST, "checkstyle": CHECKSTYLE, "workflow": WORKFLOW,
}  # fmt: skip
# Replies of the same bots to other calls, and prose: none of them is a review.
OTHERS = {
    "describe": "type: |\n  Enhancement\ndescription: |\n  Adds a cache: faster.\ntitle: |\n  Cache\npr_files:\n"
    "- filename: |\n    src/a.py\n  language: |\n    python\n  changes_summary: |\n"
    "    - Adds a class\n  label: |\n    enhancement\n",
    "describe_json": '{"title": "Cache", "type": "Enhancement", "pr_files": [{"filename": "src/a.py", '
    '"changes_summary": "Adds a class", "changes_title": "Cache", "label": "enhancement"}]}',
    "score": '{"score": 8}',
    "scores": '{"code_suggestions": [{"suggestion_number": 1, "suggestion_score": 8, "why": "real bug"}]}',
    "scoring_yaml": "code_suggestions:\n- suggestion_summary: |\n    Close it\n  relevant_file: src/a.py\n"
    "  relevant_lines_start: 3\n  relevant_lines_end: 4\n  suggestion_score: 7\n  why: |\n    It leaks\n",
    "ask": "The cache is filled in `src/cache.py` by `fill()`, which `src/main.py:12` calls at start.\n\n"
    "- `src/cache.py:40` holds the map\n- `src/main.py:12` fills it\n\nSee the docs for more.\n",
    "ask_code": "You can do it so:\n\n"
    "```python\nissues = [{'file': 'a.py', 'line': 3}]\nfor issue in issues:\n    print(issue)\n```\n",
    "agent_read": '{"path": "src/a.py", "start_line": 3, "end_line": 90}',
    "agent_edit": '{"command": "str_replace", "path": "src/a.py", "old_str": "a", "new_str": "b", "description": "x"}',
    "agent_shell": '{"command": "grep -n foo src/a.py", "description": "Search for foo", "timeout": 3}',
    "agent_insert": '{"path": "src/a.py", "insert_line": 3, "insert_text": "x = 1"}',
    "search": '{"results": [{"title": "Docs", "url": "https://x.org", "path": "docs/a.md", "text": "How to"}]}',
    "tickets": '{"issues": [{"number": 3, "title": "Crash at start", "state": "open"}]}',
    "walkthrough": "## Walkthrough\n\n| File(s) | Summary |\n|---|---|\n"
    "| `src/a.py` | Adds a cache |\n| b.py | Tests |\n",
    "table": "| Endpoint | Path |\n|---|---|\n| list | /v1/a.json |\n",
    "clean": "I looked at everything and found no issues. Nice work!\n",
    "empty_review": '{"findings": [], "overall_correctness": "patch is correct", "overall_explanation": "Fine."}',
    "empty_sarif": '{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}}, "results": []}]}',
    "changelog": "## 1.2.0\n\n- Faster start\n- File: formats documented\n\n"
    "https://x.org/o/r/blob/0123456789abcdef/a.py#L3\n",
    "blank": "",
}  # fmt: skip
