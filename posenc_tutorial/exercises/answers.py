"""Runs the answers of submissions, one process each; the half of the grader that is not trusted.

:mod:`posenc_tutorial.exercises.grade` starts this module, inside a sandbox where there is one, and
sends one JSON line per answer. Where the system can fork, PyTorch is imported once and each answer
runs in a fork of this process, watched over time, memory and the number of its processes. Elsewhere
(Windows) each answer gets an interpreter of its own, and only its time is limited.

What goes back is JSON with the bytes of tensors in it: plain data that can be read without running
anything. Nothing is judged here.
"""

from __future__ import annotations

import ast
import base64
import builtins
import ctypes
import importlib
import json
import linecache
import os
import pkgutil
import re
import select
import shutil
import signal
import symtable
import sys
import time
import types
from contextlib import suppress
from typing import Any

import torch

from .registry import exercise, exercises
from .runner import describe, run

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MIB = 1 << 20
#: More processes than an answer has any use for.
MOST_PROCESSES = 32
#: Bytes that an answer may send home.
MOST_OUTPUT = 64 * MIB
#: Bytes that a file of an answer may have.
MOST_FILE = 16 * MIB
NOBODY = 65534


# Which cells does an answer need?


def plain_python(source: str) -> str:
    """A cell's source without IPython's own syntax: magics and shell commands do nothing."""
    if source.lstrip().startswith("%%"):
        first, _, rest = source.lstrip().partition("\n")
        return rest if re.match(r"%%(time|timeit|capture|prun)\b", first) else ""
    return re.sub(r"(?m)^([ \t]*)[%!].*$", r"\1pass", source)


class Cell:
    """What a code cell defines, what it changes, and which names it uses.

    Args:
        source: Python code.

    Raises:
        SyntaxError: it is none.
    """

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        top = symtable.symtable(source, "cell", "exec")
        symbols = top.get_symbols()
        modules = {symbol.get_name() for symbol in symbols if symbol.is_imported()}
        self.defines = {symbol.get_name() for symbol in symbols if symbol.is_assigned()} | modules
        self.uses = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
        tables = top.get_children()
        while tables:
            table = tables.pop()
            tables.extend(table.get_children())
            for symbol in table.get_symbols():
                if symbol.is_global():
                    (self.defines if symbol.is_assigned() else self.uses).add(symbol.get_name())
        self.takes_all = False
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                self.takes_all |= any(alias.name == "*" for alias in node.names)
            elif isinstance(node, ast.Attribute | ast.Subscript):
                if not isinstance(node.ctx, ast.Load):
                    self.defines.add(_base(node))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                # data.append(3) changes data; torch.manual_seed(0) does not define torch.
                self.defines |= {_base(node.value.func)} - modules - {"torch", "np", "plt"}


def _base(node: ast.AST) -> str:
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return ""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def needed(sources: list[str], answer: str) -> list[int]:
    """The cells before an answer that must run for it.

    A chapter trains models that no answer asks for. A cell is run only if it defines or changes
    a name that the answer uses, or that a cell uses which is run.

    Args:
        sources: of the code cells before the answer's, in order.
        answer: source of the answer's cell.

    Returns:
        Indices into ``sources``, in order. A cell that is no Python is never among them.
    """
    cells: dict[int, Cell] = {}
    for index, source in enumerate(sources):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            cells[index] = Cell(source)
    wanted = set(Cell(answer).uses)
    chosen: set[int] = set()
    while True:
        new = {
            index
            for index, cell in cells.items()
            if index not in chosen and (cell.takes_all or cell.defines & wanted)
        }
        if not new:
            return sorted(chosen)
        chosen |= new
        for index in new:
            wanted |= cells[index].uses


# One answer, in the process that ends with it


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    """Run the cells that an answer needs, the answer's cell, and the answer on every input.

    Args:
        request: ``exercise`` (a name), ``before`` (sources of the code cells before the answer's),
            ``answer`` (its source), ``seconds`` (for all of it).

    Returns:
        ``status`` and ``message`` as in :class:`posenc_tutorial.exercises.runner.Run`, or the
        status ``"syntax error"`` or ``"memory"``; ``outputs`` as text and ``mutated``.
    """
    begin = time.monotonic()
    entry = exercise(request["exercise"])
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    builtins.display = lambda *_, **__: None  # type: ignore[attr-defined]
    answer = plain_python(request["answer"])
    before = [plain_python(source) for source in request["before"]]
    try:
        chosen = needed(before, answer)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" (line {error.lineno})" if getattr(error, "lineno", None) else ""
        text = getattr(error, "msg", None) or error
        return {"status": "syntax error", "message": f"{type(error).__name__}: {text}{line}"}
    earlier = ""
    for index in chosen:
        try:
            _execute(before[index], f"code cell {index + 1}", names)
        except BaseException as error:
            if not earlier:
                earlier = f"; before that, code cell {index + 1} {describe(error)}"
    try:
        _execute(answer, "answer", names)
    except NotImplementedError:
        return {"status": "todo", "message": "not attempted yet"}
    except BaseException as error:
        return _failed(error, earlier)
    value = names.get(entry.name, _ABSENT)
    if value is _ABSENT:
        message = f"the cell does not define {entry.name}"
        return {"status": "error", "message": message + earlier}
    seconds = max(1.0, request["seconds"] - (time.monotonic() - begin))
    try:
        done = run(entry, value, seconds=seconds)
    except BaseException as error:  # KeyboardInterrupt, raised by the answer itself
        return _failed(error, earlier)
    message = done.message + (earlier if done.status == "error" else "")
    status = "memory" if done.status == "error" and _is_memory(message) else done.status
    outputs = [encoded(value) for value in done.outputs] if status == "ran" else []
    return {"status": status, "message": message, "outputs": outputs, "mutated": done.mutated}


_ABSENT = object()


def _execute(source: str, name: str, names: dict[str, Any]) -> None:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), names)


def _failed(error: BaseException, earlier: str) -> dict[str, Any]:
    message = describe(error)
    status = "memory" if isinstance(error, MemoryError) or _is_memory(message) else "error"
    return {"status": status, "message": message + earlier}


def _is_memory(message: str) -> bool:
    return bool(re.search(r"MemoryError|can't allocate memory|not enough memory", message))


def encoded(value: Any) -> Any:
    """An output in the form of ``runner.portable`` as something that JSON can hold."""
    if isinstance(value, torch.Tensor):
        flat = torch.view_as_real(value) if value.is_complex() else value
        raw = flat.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        kind = str(value.dtype).removeprefix("torch.")
        return {"tensor": [kind, list(value.shape), base64.b64encode(raw).decode("ascii")]}
    if isinstance(value, list):
        return [encoded(entry) for entry in value]
    if isinstance(value, dict):
        return {"plain": value}
    return value


# The process that stays


def main(*, fork: bool, scratch: str, memory: int, namespace: bool) -> None:
    """Answer requests from standard input until it ends.

    Args:
        fork: one process for each request; otherwise the first request is also the last.
        scratch: the folder that an answer may write to.
        memory: MiB that an answer may use beyond what PyTorch needs.
        namespace: this process and what it starts are alone among processes (bubblewrap).
    """
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    torch.set_num_threads(1)
    if fork:
        _warm_up()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    server = _Server(scratch, memory, namespace) if fork else None
    replies.write(b'"ready"\n')
    replies.flush()
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        if server is None:
            os.chdir(scratch)
            reply = {"outcome": "done", "data": json.dumps(answer_to(request))}
        else:
            reply = server.serve(request)
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()
        if server is None:
            os._exit(0)


def _warm_up() -> None:
    """Import what answers may want, before the first fork."""
    package = __package__.split(".")[0]
    for folder in ("", ".plots", ".claims"):
        with suppress(ImportError):
            parent = importlib.import_module(package + folder)
            for found in pkgutil.iter_modules(parent.__path__, f"{package}{folder}."):
                if not found.ispkg and not found.name.endswith("__main__"):
                    with suppress(ImportError):
                        importlib.import_module(found.name)
    with suppress(ImportError):
        importlib.import_module("matplotlib.pyplot")
    for entry in exercises():
        entry.inputs()
    torch.ones(2, 2).softmax(0)  # loads the mathematics library


class _Server:
    """Forks, and watches the fork."""

    def __init__(self, scratch: str, memory: int, namespace: bool) -> None:
        self.scratch = scratch
        self.memory = memory * MIB
        # The second process of a namespace of its own: then "all others" are the answer's.
        self.alone = namespace and os.getpid() == 2
        self.can_look = False
        with suppress(OSError):
            self.can_look = os.readlink("/proc/self") == str(os.getpid())
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become our children
            libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: answers cannot look into this process
        self.base = self._anonymous(os.getpid())
        self.as_nobody = os.geteuid() == 0 and self._can_be_nobody()

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._child(request, writing)
        os.close(writing)
        try:
            outcome, data = self._watch(pid, reading, request["seconds"] + 1.0)
        finally:
            os.close(reading)
            self._end_all(pid)
            self._empty_scratch()
        return {"outcome": outcome, "data": data.decode("ascii", "replace")}

    # In the fork

    def _child(self, request: dict[str, Any], writing: int) -> None:
        status = 1
        try:
            os.setsid()
            os.dup2(writing, 3)
            os.closerange(4, 4096)
            os.chdir(self.scratch)
            self._limit(request["seconds"])
            if self.as_nobody:
                _become_nobody()
            try:
                text = json.dumps(answer_to(request))
            except (ValueError, TypeError, RecursionError) as error:
                text = json.dumps({"status": "error", "message": describe(error)})
            except MemoryError:
                text = json.dumps({"status": "memory", "message": "MemoryError"})
            raw = memoryview(text.encode("ascii"))
            while raw:
                raw = raw[os.write(3, raw) :]
            status = 0
        finally:
            os._exit(status)

    def _limit(self, seconds: float) -> None:
        size = 0
        with suppress(OSError):
            with open("/proc/self/statm") as handle:
                size = int(handle.read().split()[0]) * resource.getpagesize()
        limits = {
            "RLIMIT_CORE": 0,
            "RLIMIT_CPU": int(seconds) + 5,
            "RLIMIT_FSIZE": MOST_FILE,
            # Of this user, threads included. Where processes can be counted, _excess() is stricter.
            "RLIMIT_NPROC": 256 if self.alone and not self.can_look else 4096,
            "RLIMIT_AS": size + self.memory if size else 0,
        }
        for name, value in limits.items():
            if name == "RLIMIT_AS" and not value:
                continue
            with suppress(OSError, ValueError, AttributeError):
                kind = getattr(resource, name)
                most = resource.getrlimit(kind)[1]
                if most != resource.RLIM_INFINITY:
                    value = min(value, most)
                resource.setrlimit(kind, (value, value))

    def _can_be_nobody(self) -> bool:
        """Whether the least of users can read what Python needs and write to the scratch folder."""
        with suppress(OSError):
            os.chmod(self.scratch, 0o777)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.chdir(self.scratch)
                folders = [path for path in sys.path if os.path.isdir(path)]
                _become_nobody()
                for folder in folders:
                    os.listdir(folder)
                with open(torch.__file__), open(__file__), open("probe", "w"):
                    status = 0
            finally:
                os._exit(status)
        worked = os.waitpid(pid, 0)[1] == 0
        self._empty_scratch()
        return worked

    # Watching it

    def _watch(self, pid: int, reading: int, seconds: float) -> tuple[str, bytes]:
        end, data, look, code = time.monotonic() + seconds, bytearray(), 0.0, None
        while True:
            ready, _, _ = select.select([reading], [], [], 0.02)
            piece = os.read(reading, MIB) if ready else b""
            data += piece
            if len(data) > MOST_OUTPUT:
                return "output", b""
            now = time.monotonic()
            if not piece:
                if code is not None:  # the pipe was looked at once more after the end
                    return ("done" if code == 0 else f"died {code}"), bytes(data)
                code = self._exit_code(pid)
                if ready and code is None:
                    time.sleep(0.005)  # closed, and about to end
            if now > end:
                return "timeout", b""
            if self.can_look and now > look:
                problem = self._excess()
                if problem:
                    return problem, b""
                look = now + max(0.03, 10 * (time.monotonic() - now))

    @staticmethod
    def _exit_code(pid: int) -> int | None:
        found, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if found else None

    def _excess(self) -> str:
        pids = self._descendants()
        if len(pids) > MOST_PROCESSES:
            return "processes"
        used = sum(max(0, self._anonymous(pid) - self.base) for pid in pids)
        return "memory" if used > self.memory else ""

    def _descendants(self) -> list[int]:
        parents: dict[int, int] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    with open(f"/proc/{name}/stat", "rb") as handle:
                        rest = handle.read().rpartition(b")")[2].split()
                    parents[int(name)] = int(rest[1])
        found, own = [], {os.getpid()}
        while own:
            own = {pid for pid, parent in parents.items() if parent in own}
            found.extend(own)
        return found

    @staticmethod
    def _anonymous(pid: int) -> int:
        """Bytes of a process that are not those of a file."""
        try:
            with open(f"/proc/{pid}/statm") as handle:
                _, resident, shared = map(int, handle.read().split()[:3])
            return (resident - shared) * resource.getpagesize()
        except (OSError, ValueError):
            return 0

    def _end_all(self, pid: int) -> None:
        """End the answer and everything that it started."""
        for _ in range(400):
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            if self.alone:
                with suppress(OSError):
                    os.kill(-1, signal.SIGKILL)  # all but the first process of the namespace and us
            elif self.can_look:
                for other in self._descendants():
                    with suppress(OSError):
                        os.kill(other, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.005)

    def _empty_scratch(self) -> None:
        for entry in os.scandir(self.scratch):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
