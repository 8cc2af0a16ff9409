"""The few rules of the book's Markdown that a program can check.

MyST comes as colon fences with blank lines inside and as inline roles from a short list, so that
the same cell is readable where MyST is not known. One sentence stands on a line, so that a changed
sentence is a changed line. The checks are lenient: what is doubtful passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DIRECTIVES = {"note", "tip", "warning", "admonition", "exercise", "math", "figure", "index"}
DIRECTIVE_PREFIXES = ("prf:",)
ROLES = {"cite:t", "cite:p", "eq", "numref", "ref", "prf:ref", "doc", "term"}
HTML = re.compile(
    r"</?(?:a|b|br|center|details|div|em|hr|i|iframe|img|kbd|p|script|span|strong|style|sub|"
    r"summary|sup|table|td|th|tr|u)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)

ABBREVIATIONS = (
    r"(?:\b(?:e\.g|i\.e|cf|vs|etc|al|resp|approx|ca|no|nos|pp|vol|ch|chap|fig|figs|eq|eqs|sec|secs|"
    r"ref|refs|def|thm|lem|cor|prop|app|tab|ex|dr|mr|mrs|ms|prof|st|jr|sr|inc|ltd)|\b[A-Za-z])\."
)
SENTENCE_END = re.compile(r"""[.!?]["'”’)\]*_]*[ \t]+["'“‘(\[*_]*(?=[A-Z])""")
ENDS_IN_ABBREVIATION = re.compile(ABBREVIATIONS + r"$", re.IGNORECASE)


def check(source: str) -> list[str]:
    """Findings about one Markdown cell, each with the line number inside the cell."""
    return [f"line {number}: {text}" for number, text in _findings(source)]


def _findings(source: str) -> Iterator[tuple[int, str]]:
    lines = source.splitlines()
    code_fence = ""
    in_math = False
    open_fences: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        bare = line.strip()
        if code_fence:
            if bare.startswith(code_fence) and not bare.strip(code_fence[0]):
                code_fence = ""
            continue
        if in_math:
            if "$$" in bare:
                in_math = False
            continue
        fence = re.match(r"(`{3,}|~{3,})(.*)", bare)
        if fence:
            if re.match(r"\s*\{", fence[2]):
                yield number, f"a backtick directive, use a colon fence: {bare}"
            code_fence = fence[1]
            continue
        colon = re.match(r"(:{3,})\s*(.*)", bare)
        if colon:
            yield from _colon_fence(lines, number, colon[1], colon[2], open_fences)
            continue
        if open_fences and open_fences[-1][1] == "math":
            continue
        if bare.startswith("$$"):
            in_math = bare.count("$$") == 1
            continue
        yield from ((number, text) for text in _line(line))
    for number, name in open_fences:
        yield number, f"the fence {name!r} is not closed"


def _colon_fence(
    lines: list[str], number: int, colons: str, rest: str, open_fences: list[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    opening = re.match(r"\{([^}]*)\}", rest)
    if not rest:
        if not open_fences:
            yield number, "a closing fence that nothing opened"
            return
        start, name = open_fences.pop()
        if name != "figure" and number - start > 1 and lines[number - 2].strip():
            yield number, f"no blank line before the end of {name!r}"
        return
    if opening is None:
        yield number, f"a fence without {{name}}: {colons}{rest}"
        return
    name = opening[1]
    open_fences.append((number, name))
    if name not in DIRECTIVES and not name.startswith(DIRECTIVE_PREFIXES):
        allowed = ", ".join(sorted(DIRECTIVES))
        yield number, f"the directive {name!r} is not among {allowed}, prf:*"
        return
    following = number  # index of the line after the opening one
    while following < len(lines) and re.match(r"\s*:[\w-]+:", lines[following]):
        following += 1
    if following < len(lines):
        text = lines[following].strip()
        if text and not re.fullmatch(r":{3,}", text):
            yield number, f"no blank line after the head of {name!r}"


def _line(line: str) -> Iterator[str]:
    without_maths = re.sub(r"\$[^$]+\$", "Maths", line)
    for role in re.finditer(r"(?<!`)\{([\w:+.-]+)\}`[^`]*`", without_maths):
        if role[1] not in ROLES:
            yield f"the role {role[1]!r} is not among {', '.join(sorted(ROLES))}"
    text = re.sub(r"\{[\w:+.-]+\}`[^`]*`", "Role", without_maths)
    text = re.sub(r"(`+).+?\1", "code", text)
    if HTML.search(text):
        yield f"raw HTML: {HTML.search(text)[0]}"
    if re.search(r"\[\^[^\]]+\]", text):
        yield "a footnote"
    if several_sentences(text):
        yield f"several sentences in one line: {line.strip()}"


def several_sentences(text: str) -> bool:
    """Whether a line of prose, free of code and maths, holds more than one sentence."""
    text = text.strip()
    if text.startswith(("|", "#")) or re.fullmatch(r"\([\w-]+\)=", text):
        return False
    text = re.sub(r"!?\[([^\]])[^\]]*\]\([^)]*\)", r"\1ink", text)  # a link is one word
    text = re.sub(r"<https?://[^>]*>", "address", text)
    text = re.sub(r"^(?:[>\s]*(?:[-*+]|\d+[.)])\s+)+", "", text)  # quote and list marks
    text = re.sub(r"^(\*\*|__|\*|_)(?=\S).+?\1[.:]?\s+", "", text)  # a heading in the line
    text = re.sub(r"“[^”]*”|\"[^\"]*\"", "quote", text)
    for found in SENTENCE_END.finditer(text):
        head = text[: found.start() + 1]
        if head.endswith("...") or ENDS_IN_ABBREVIATION.search(head):
            continue
        return True
    return False
