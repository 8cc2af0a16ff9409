"""The numbers of the book, read out of the environment that Sphinx pickles when it builds it.

Sphinx numbers figures, equations, theorems, exercises and sections over all pages together. What
is printed elsewhere, in the derived notebooks above all, looks its numbers up here, so that
"Fig. 3.2" is the same picture everywhere.
"""

from __future__ import annotations

import html
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools import build_book
from tools.notebooks import BOOK, ROOT

ENVIRONMENT = Path(".doctrees") / "environment.pickle"


@dataclass(frozen=True)
class Target:
    """Something with a label: where it is, and what the book calls it.

    Attributes:
        page: the page that holds it, ``"03-sinusoidal"``.
        anchor: its id in that page.
        number: ``"3.2"``; empty for what has no number.
        text: what a reference shows, ``"Fig. 3.2"`` or the title of a section.
    """

    page: str
    anchor: str
    number: str
    text: str


@dataclass(frozen=True)
class Work:
    """An entry of the bibliography, as a text cites it."""

    authors: str
    year: str
    address: str


@dataclass
class Numbers:
    """Everything that a page needs to know about the others.

    Attributes:
        site: address of the published book, ends in ``/``.
        raw: address below which a file of ``book/`` is served as it is, ends in ``/``.
        targets: label of a figure, section, theorem or exercise -> what it is.
        equations: label of an equation -> what it is.
        terms: term of the glossary, in small letters -> where it is explained.
        titles: page -> its title.
        sections: page -> the numbers of its headings, in order, the title's first; empty for
            pages that are not numbered.
        works: key of the bibliography -> work.
    """

    site: str
    raw: str
    targets: dict[str, Target] = field(default_factory=dict)
    equations: dict[str, Target] = field(default_factory=dict)
    terms: dict[str, Target] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    sections: dict[str, list[str]] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)


@dataclass(frozen=True)
class Repository:
    """What ``_config.yml`` says about the address of the project."""

    url: str
    branch: str
    folder: str  # the book's folder in it

    @property
    def slug(self) -> str:
        """``owner/name``.

        Raises:
            ValueError: the repository is not on GitHub, the only host that Colab opens.
        """
        match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", self.url)
        if match is None:
            raise ValueError(
                f"repository: url: in _config.yml is {self.url!r}; the derived notebooks and their "
                "links need https://github.com/owner/name"
            )
        return match[1]

    @property
    def site(self) -> str:
        """Where GitHub serves the pages."""
        owner, name = self.slug.split("/")
        return f"https://{owner.lower()}.github.io/{name}/"

    @property
    def raw(self) -> str:
        """Where GitHub serves a file of the book as it is."""
        return f"https://raw.githubusercontent.com/{self.slug}/{self.branch}/{self.folder}/"

    @property
    def pip(self) -> str:
        """What pip installs the package from."""
        return f"git+https://github.com/{self.slug}@{self.branch}"


def repository(config: Path = ROOT / "_config.yml") -> Repository:
    """The address in ``_config.yml``, the only place where it stands."""
    found = yaml.safe_load(config.read_text(encoding="utf-8"))["repository"]
    return Repository(found["url"], found["branch"], found["path_to_book"].strip("/"))


# ------------------------------------------------------------------- which build, and is it new


def is_fresh(environment: Path) -> bool:
    """Whether a pickled environment holds every source as it is now.

    The file may be newer than a source and still know an older state of it, if the source changed
    while the book was being built. So pages are compared with the moment at which each was read.
    """
    if not environment.is_file():
        return False
    made = environment.stat().st_mtime
    others = [ROOT / "_config.yml", ROOT / "_toc.yml", BOOK / "references.bib"]
    others += BOOK.glob("_ext/*.py")
    if any(path.stat().st_mtime > made for path in others):
        return False
    read = load_environment(environment).all_docs  # page -> microseconds
    pages = [path for path in BOOK.iterdir() if path.suffix in (".ipynb", ".md")]
    return all(
        path.stem in read and path.stat().st_mtime <= read[path.stem] / 1e6
        for path in pages
        if path.stem in build_book.pages()
    )


def fresh_environment() -> Path:
    """The pickled environment of a build of the sources as they are now.

    That of ``make book`` where it is new enough. Otherwise the pages are read again into a folder
    of their own, without writing any: some seconds, since only what changed is read.

    Raises:
        RuntimeError: Sphinx did not get through; the message holds what it printed.
    """
    built = build_book.BUILD / ENVIRONMENT
    if is_fresh(built):
        return built
    out = build_book.BUILD / "numbers"
    command = build_book.command()
    command = [word for word in command if word not in ("-W", "--keep-going")]
    command[command.index("--path-output") + 1] = str(out)
    command += ["--builder", "custom", "--custom-builder", "dummy"]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    environment = out / "_build" / ENVIRONMENT
    if done.returncode or not environment.is_file():
        raise RuntimeError(f"the book could not be read for its numbers:\n{done.stdout[-4000:]}")
    os.utime(environment)  # when nothing changed, Sphinx leaves the old file
    return environment


def load_environment(path: Path) -> Any:
    """The pickled Sphinx environment; the book's own extensions are importable while it loads."""
    folder = str(BOOK / "_ext")
    sys.path.insert(0, folder)
    try:
        with path.open("rb") as stream:
            return pickle.load(stream)  # noqa: S301  written by our own build
    finally:
        sys.path.remove(folder)


# ------------------------------------------------------------------- from the environment


def read_numbers(path: Path, where: Repository) -> Numbers:
    """The numbers of one build.

    Args:
        path: ``environment.pickle`` of the build.
        where: the address of the project.
    """
    env = load_environment(path)
    numbers = Numbers(where.site, where.raw)
    numbers.titles = {page: title.astext() for page, title in env.titles.items()}
    numbers.sections = {
        page: [_dotted(number) for number in found.values()]
        for page, found in env.toc_secnumbers.items()
    }
    by_anchor = {
        (page, anchor): (kind, _dotted(number))
        for page, kinds in env.toc_fignumbers.items()
        for kind, found in kinds.items()
        for anchor, number in found.items()
    }
    domains = env.domaindata
    named = {label: found[:2] for label, found in domains["std"]["anonlabels"].items()}
    titled = {label: str(found[2]) for label, found in domains["std"]["labels"].items()}
    # sphinx-proof and sphinx-exercise keep lists of their own.
    for registry in ("proof_list", "sphinx_exercise_registry"):
        for label, found in getattr(env, registry, {}).items():
            named[label] = (found["docname"], label)
    for label, (page, anchor) in named.items():
        kind, number = by_anchor.get((page, anchor), ("", ""))
        text = _reference(kind, number, env.config.numfig_format) if kind else titled.get(label, "")
        numbers.targets[label] = Target(page, anchor, number, text)
    for term, (page, anchor) in domains["std"]["terms"].items():
        numbers.terms[term] = Target(page, anchor, "", term)
    for label, (page, plain) in domains["math"]["objects"].items():
        anchor = f"equation-{label}"
        number = by_anchor.get((page, anchor), ("", str(plain)))[1]
        text = (env.config.math_eqref_format or "({number})").format(number=number)
        numbers.equations[label] = Target(page, anchor, number, text)
    entries = {cited.key: cited.entry for cited in domains["cite"]["citations"]}
    references = f"{where.site}references.html"
    numbers.works = {key: work(entry, references) for key, entry in entries.items()}
    return numbers


def _dotted(number: Sequence[int]) -> str:
    return ".".join(map(str, number))


def _reference(kind: str, number: str, formats: Mapping[str, str]) -> str:
    text = formats.get(kind, f"{kind} %s") % number
    return text[0].upper() + text[1:]


def work(entry: Any, references: str) -> Work:
    """Authors, year and address of a pybtex entry.

    Args:
        entry: the entry.
        references: where a work is looked up that has no address of its own.
    """
    names = [_plain(" ".join([*p.prelast_names, *p.last_names])) for p in entry.persons["author"]]
    if len(names) > 2:
        authors = f"{names[0]} et al."
    else:
        authors = " and ".join(names)
    doi, url = entry.fields.get("doi"), entry.fields.get("url")
    return Work(
        authors, entry.fields["year"], f"https://doi.org/{doi}" if doi else url or references
    )


def _plain(name: str) -> str:
    return name.replace("{", "").replace("}", "")


# ------------------------------------------------------------------- what a page shows


def shown_numbers(page: str) -> dict[str, list[str]]:
    """The numbers that a rendered page shows, in the order of the page.

    Args:
        page: the HTML.

    Returns:
        ``headings``, ``equations``, ``captions`` (of figures, theorems and exercises) and
        ``references`` (to figures, equations, theorems and exercises) -> texts.
    """
    article = page[page.index("<article") : page.index("</article>")]

    def texts(pattern: str) -> list[str]:
        found = re.findall(pattern, article, re.DOTALL)
        return [html.unescape(re.sub(r"<[^>]*>", "", text)).strip() for text in found]

    links = texts(r'<a class="reference internal" href="[^"]*#[^"]*"[^>]*>(.*?)</a>')
    return {
        "headings": texts(r'<span class="section-number">(.*?)</span>'),
        "equations": texts(r'<span class="eqno">\((.*?)\)<'),
        "captions": texts(r'<span class="caption-number">(.*?)</span>'),
        "references": [text for text in links if NUMBERED.fullmatch(text)],
    }


NUMBERED = re.compile(
    r"(?:Fig\.|Eq\.|Table|Definition|Lemma|Theorem|Corollary|Proposition|Remark|Example|Exercise)"
    r" \d+(?:\.\d+)*"
)
