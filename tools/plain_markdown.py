"""MyST to plain Markdown, for notebooks that do not know MyST (Colab, JupyterLab, GitHub).

Only what ``tools/check_prose.py`` allows is translated; anything else is an error that names it,
so that no raw directive and no raw role reaches a reader. Numbers come from the built book.

Two habits of plain renderers decide the form of the result. Formulas are taken out of a cell
before its Markdown is read, so inside a block quote, where each line begins with ``>``, a displayed
formula is written on one line. And an anchor needs blank lines around it, or what follows is HTML.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from tools.book_numbers import NUMBERED, Numbers, Target

ADMONITIONS = {
    "note": "Note",
    "tip": "Tip",
    "warning": "Warning",
    "admonition": "",
}
NUMBERED_BLOCKS = ("exercise", "prf:")

OPENING = re.compile(r"(:{3,})\s*\{([^}]*)\}\s*(.*)")
OPTION = re.compile(r"\s*:([\w-]+):\s*(.*)")
LABEL = re.compile(r"\(([\w-]+)\)=\s*")
HEADING = re.compile(r"(#{1,6}) +(.*)")
END_OF_FORMULA = re.compile(r"(.*?)\$\$\s*(?:\(([\w-]+)\))?\s*", re.DOTALL)
INLINE = re.compile(
    r"\{(?P<role>[\w:+.-]+)\}`(?P<body>[^`]+)`"
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<math>(?<!\\)\$[^$]+\$)"
    r"|!\[(?P<alt>[^\]]*)\]\((?P<image>[^)\s]+)\)"
    r"|(?<!!)\[(?P<words>[^\]]*)\]\((?P<file>_static/[^)\s]+)\)",
    re.DOTALL,
)
EXPLICIT = re.compile(r"(.*?)\s*<([^<>]+)>", re.DOTALL)
ENVIRONMENT = re.compile(r"\s*\\begin\{")


class UnknownSyntax(ValueError):
    """Markdown that has no plain form here."""


@dataclass
class Converter:
    """Turns the Markdown cells of one page into plain Markdown, in order.

    The order matters: headings are numbered by counting them.

    Args:
        page: name of the page, ``"03-sinusoidal"``.
        numbers: of the whole book.

    Attributes:
        headings: how many headings have passed.
    """

    page: str
    numbers: Numbers
    headings: int = 0

    def convert(self, source: str) -> str:
        """One cell.

        Raises:
            UnknownSyntax: a directive, a role or a label that cannot be translated.
        """
        return self._blocks(source.splitlines(), quoted=False)

    # ------------------------------------------------------------------- blocks

    def _blocks(self, lines: list[str], *, quoted: bool) -> str:
        done: list[str] = []
        prose: list[str] = []

        def flush() -> None:
            if prose:
                done.append(self.inline("\n".join(prose)))
                prose.clear()

        at = 0
        while at < len(lines):
            line = lines[at]
            bare = line.strip()
            if fence := re.match(r"\s*(`{3,}|~{3,})(.*)", line):
                flush()
                if fence[2].lstrip().startswith("{"):
                    raise UnknownSyntax(f"the backtick directive {bare!r}, use a colon fence")
                end = _closing(lines, at + 1, fence[1])
                done.append("\n".join(lines[at : end + 1]))
                at = end + 1
            elif bare.startswith(":::"):
                flush()
                if line != line.lstrip():
                    raise UnknownSyntax(f"the indented fence {bare!r}")
                opening = OPENING.fullmatch(bare)
                if opening is None:
                    raise UnknownSyntax(f"the fence {bare!r}, which opens nothing")
                end = _closing(lines, at + 1, opening[1])
                done.append(self._directive(opening[2], opening[3], lines[at + 1 : end], quoted))
                at = end + 1
            elif bare.startswith("$$"):
                flush()
                formula, label, at = _formula(lines, at)
                indent = line[: len(line) - len(line.lstrip())]  # inside a list
                done.append(textwrap.indent(self._equation(formula, label, quoted), indent))
            elif label := LABEL.fullmatch(bare):
                flush()
                done += [anchor(label[1]), ""]
                at += 1
            elif heading := HEADING.fullmatch(bare):
                flush()
                done.append(f"{heading[1]} {self._heading_number()}{self.inline(heading[2])}")
                at += 1
            elif ENVIRONMENT.match(line):
                raise UnknownSyntax(f"{bare!r} outside $$, which the book numbers without a label")
            elif bare.startswith("%") or bare.startswith("+++"):
                raise UnknownSyntax(f"the MyST line {bare!r}")
            else:
                prose.append(line)
                at += 1
        flush()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(done)).strip("\n")

    def _heading_number(self) -> str:
        found = self.numbers.sections.get(self.page)
        self.headings += 1
        if not found:
            return ""
        if self.headings > len(found):
            raise UnknownSyntax(
                f"heading {self.headings}, where the book has {len(found)} (is it at the top level "
                "of a cell, and the book built anew?)"
            )
        return f"{found[self.headings - 1]}. "

    def _equation(self, formula: str, label: str | None, quoted: bool) -> str:
        formula = formula.strip("\n")
        start = ""
        if label:
            target = self._look_up(label, self.numbers.equations, "equation")
            formula = f"{formula.rstrip()} \\tag{{{target.number}}}"
            start = anchor(label) + "\n\n"
        if quoted:
            if re.search(r"(?<!\\)%", formula):
                raise UnknownSyntax("a TeX comment in a formula that has to stand on one line")
            return f"{start}$$ {' '.join(formula.split())} $$"
        return f"{start}$$\n{formula}\n$$"

    def _directive(self, name: str, title: str, lines: list[str], quoted: bool) -> str:
        options, body = _options(lines)
        label = options.get("label") or options.get("name")
        title = self.inline(title.strip())
        if name == "index":  # only the book has one
            if body:
                raise UnknownSyntax(f"an index entry with a text, {body[0]!r}")
            return ""
        if name == "math":
            return self._equation("\n".join(body), label, quoted)
        if name == "figure":
            return self._figure(title, options, body)
        dropdown = "dropdown" in options.get("class", "").split()
        if name in ADMONITIONS:
            heading, more = title or ADMONITIONS[name], ""
        elif name.startswith(NUMBERED_BLOCKS):
            heading, more = self._numbered(name, label, options), f" ({title})" if title else ""
        else:
            raise UnknownSyntax(f"the directive {name!r}")
        start = anchor(label) + "\n\n" if label else ""
        text = self._blocks(body, quoted=quoted or not dropdown)
        if dropdown:
            return (
                f"{start}<details>\n<summary><b>{_html(heading + more)}</b></summary>\n\n"
                f"{text}\n\n</details>\n"
            )
        return start + quote(f"**{heading}**{more}\n\n{text}")

    def _numbered(self, name: str, label: str | None, options: dict[str, str]) -> str:
        kind = name.removeprefix("prf:").title()
        if kind == "Proof":
            return "Proof."
        if "nonumber" in options:
            return kind
        if label is None:
            raise UnknownSyntax(f"the directive {name!r} without :label:, by which to number it")
        return f"{kind} {self._look_up(label, self.numbers.targets, name).number}"

    def _figure(self, path: str, options: dict[str, str], body: list[str]) -> str:
        label = options.get("name") or options.get("label")
        picture = f"![{options.get('alt', '')}]({self._raw(path)})"
        caption = self._blocks(body, quoted=False)
        if label is None:
            return f"{picture}\n\n{caption}" if caption else picture
        return f"{anchor(label)}\n\n{picture}\n\n{self.caption(label, caption, converted=True)}"

    def caption(self, label: str, text: str, *, converted: bool = False) -> str:
        """The line below a figure: its number, as in the book, and what it shows."""
        number = self._look_up(label, self.numbers.targets, "figure").text
        return f"**{number}.** {text if converted else self.inline(text)}"

    # ------------------------------------------------------------------- inside a line

    def inline(self, text: str) -> str:
        """A run of prose: roles, and addresses of pictures and files; code and formulas stay."""

        def replace(match: re.Match[str]) -> str:
            if match["role"]:
                return self._role(match["role"], match["body"])
            if match["image"]:
                return f"![{match['alt']}]({self._raw(match['image'])})"
            if match["file"]:
                return f"[{match['words']}]({self.numbers.site}{match['file']})"
            return match[0]

        return INLINE.sub(replace, text)

    def _role(self, name: str, body: str) -> str:
        roles: dict[str, Callable[[str], str]] = {
            "cite:t": lambda keys: ", ".join(
                self._cite(key, "{0} ({1})") for key in keys.split(",")
            ),
            "cite:p": lambda keys: (
                "(" + "; ".join(self._cite(key, "{0}, {1}") for key in keys.split(",")) + ")"
            ),
            "eq": self._equation_reference,
            "numref": self._number_reference,
            "ref": self._reference,
            "prf:ref": self._reference,
            "doc": self._page,
            "term": self._term,
        }
        if name not in roles:
            raise UnknownSyntax(f"the role {name!r}")
        return roles[name](body)

    def _cite(self, key: str, form: str) -> str:
        if key.strip() not in self.numbers.works:
            raise UnknownSyntax(f"the work {key.strip()!r}, which the bibliography does not hold")
        work = self.numbers.works[key.strip()]
        return f"[{form.format(work.authors, work.year)}]({work.address})"

    def _equation_reference(self, label: str) -> str:
        target = self._look_up(label, self.numbers.equations, "equation")
        return self._link(target.text, target, label)

    def _number_reference(self, body: str) -> str:
        text, label = _explicit(body)
        target = self._look_up(label, self.numbers.targets, "numref")
        if not NUMBERED.fullmatch(target.text):
            raise UnknownSyntax(f"the role 'numref' to {label!r}, which has no number")
        if text:
            text = text.replace("%s", target.number).replace("{number}", target.number)
        return self._link(text or target.text, target, label)

    def _reference(self, body: str) -> str:
        text, label = _explicit(body)
        target = self._look_up(label, self.numbers.targets, "ref")
        if not (text or target.text):
            raise UnknownSyntax(f"the role 'ref' to {label!r}, which has no title, without a text")
        return self._link(text or target.text, target, label)

    def _page(self, body: str) -> str:
        text, name = _explicit(body)
        page = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), name.strip("/")))
        if page not in self.numbers.titles:
            raise UnknownSyntax(
                f"the role 'doc' to the page {page!r}, which the book does not have"
            )
        return f"[{text or self.numbers.titles[page]}]({self.numbers.site}{page}.html)"

    def _term(self, body: str) -> str:
        text, name = _explicit(body)
        if name.lower() not in self.numbers.terms:
            raise UnknownSyntax(f"the term {name!r}, which the glossary does not hold")
        target = self.numbers.terms[name.lower()]
        return self._link(text or name, target, target.anchor)

    def _link(self, text: str, target: Target, label: str) -> str:
        if target.page == self.page:
            return f"[{text}](#{label})"
        return f"[{text}]({self.numbers.site}{target.page}.html#{target.anchor})"

    def _raw(self, path: str) -> str:
        if re.match(r"https?://", path):
            return path
        return self.numbers.raw + posixpath.normpath(
            path.lstrip("/")
            if path.startswith("/")
            else posixpath.join(posixpath.dirname(self.page), path)
        )

    def _look_up(self, label: str, targets: dict[str, Target], what: str) -> Target:
        if label not in targets:
            raise UnknownSyntax(f"the label {label!r} ({what}), which the book does not have")
        return targets[label]


# ------------------------------------------------------------------- small parts


def anchor(label: str) -> str:
    """Somewhere to jump to. Renderers differ in which of the two attributes they keep."""
    return f'<a id="{label}" name="{label}"></a>'


def quote(text: str) -> str:
    """Each line as part of a block quote."""
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n")) + "\n"


def left_over(source: str) -> list[str]:
    """What is still MyST in a plain Markdown cell; code and formulas are left out."""
    text = re.sub(r"^[> ]*(`{3,}|~{3,}).*?^[> ]*\1", "", source, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\{[\w:+.-]+\}`[^`]*`", text)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$|\$[^$]+\$", "", text, flags=re.DOTALL)
    found += re.findall(
        r"^[> ]*:{3,}.*$|^[> ]*\([\w-]+\)=\s*$|^[> ]*:[\w-]+:.*$", text, re.MULTILINE
    )
    found += re.findall(r"\$\$|\[\^[^\]]*\]", text)
    return found


def _closing(lines: list[str], start: int, fence: str) -> int:
    """The line that closes a fence: the same character, at least as often, and nothing else."""
    for at in range(start, len(lines)):
        bare = lines[at].strip()
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            return at
    raise UnknownSyntax(f"the fence {lines[start - 1].strip()!r}, which is not closed")


def _formula(lines: list[str], start: int) -> tuple[str, str | None, int]:
    """The formula that begins on a line with ``$$``: TeX, label, and the line after it."""
    text = lines[start].strip()[2:]
    at = start
    while "$$" not in text:
        at += 1
        if at == len(lines):
            raise UnknownSyntax(f"the formula {lines[start].strip()!r}, which is not closed")
        text += "\n" + lines[at]
    match = END_OF_FORMULA.fullmatch(text)
    if match is None:
        raise UnknownSyntax(f"what follows a formula on its last line: {lines[at].strip()!r}")
    return match[1], match[2], at + 1


def _options(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    options = {}
    at = 0
    while at < len(lines) and (match := OPTION.fullmatch(lines[at])):
        options[match[1]] = match[2].strip()
        at += 1
    body = lines[at:]
    while body and not body[0].strip():
        body = body[1:]
    return options, body


def _explicit(body: str) -> tuple[str, str]:
    """``text <label>`` -> text and label; ``label`` -> no text and the label."""
    match = EXPLICIT.fullmatch(body)
    return (match[1], match[2]) if match else ("", body)


def _html(text: str) -> str:
    """A heading with a little Markdown, for use inside an HTML element.

    Raises:
        UnknownSyntax: it holds a link, which would not be one there.
    """
    if "](" in text:
        raise UnknownSyntax(f"a link in the title of a dropdown: {text!r}")
    text = re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", text)
    return re.sub(r"(?<!\w)[*_]([^*_$]+)[*_](?!\w)", r"<em>\1</em>", text)
