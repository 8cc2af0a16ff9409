"""How near the kernels come to the limit of memory, and how far their peers are from it.

    make bench                                        # everything this machine can run
    python -m benchmarks.bench --only rope --repeats 21

Writes ``benchmarks/results/bench.csv`` and ``bench.md``; chapter 12 draws a copy of the first,
``posenc_tutorial/kernels/measured.csv``. Ways of doing the same thing are timed in
turn, again and again, so that whatever else the machine does hits all of them alike. Before every
run something else is copied, untimed, and memory that is free is given back to the system (glibc):
then no way finds in a cache or in reserve what the one before it left there, and all of them find
the same threads awake. A row is the median of its times, and the columns to compare are the ratios.
Where its tensors lie in memory changes a time too: each rotation is measured in three places, and
the median of the three counts. The limit of a rotation is ``copy_`` into memory that is there: it
reads and writes every byte once, as a rotation must. The limit of one that returns new tensors is
``clone``.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from posenc_tutorial import ALiBi, NoPE, T5Bias, inverse_frequencies, rope_cos_sin
from posenc_tutorial.attention import attention
from posenc_tutorial.kernels import apply_rope, biased_attention, why_not

RESULTS = Path(__file__).parent / "results"
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
Q_HEADS, K_HEADS, HEAD_DIM = 32, 8, 128
PLACES = 3  # in memory, of the tensors that are rotated
COLUMNS = (
    "part", "what", "device", "dtype", "layout", "n", "milliseconds", "spread", "ratio_copy",
    "ratio_clone", "peak_mib", "of_bias", "value", "note",
)  # fmt: skip


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def interleaved(ways: dict[str, Callable], device, repeats: int, warm: int = 2) -> dict:
    """Medians and spreads in milliseconds of ways that are timed in turn, from the same start.

    The spread is half the distance between the quartiles, over the median.
    """
    start_from, start_to = torch.zeros(2, 2**24, device=device)  # 64 MiB each
    for run in ways.values():
        for _ in range(warm):
            run()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, run in ways.items():
            start_to.copy_(start_from)
            give_memory_back()
            wait(device)
            start = time.perf_counter()
            run()
            wait(device)
            times[name].append(1000 * (time.perf_counter() - start))
    done = {}
    for name, each in times.items():
        low, middle, high = statistics.quantiles(each, n=4)
        done[name] = middle, (high - low) / 2 / middle
    return done


def give_memory_back() -> None:
    """Otherwise chance decides which way gets memory that was used before: it is far cheaper."""
    if TRIM is not None:
        TRIM(0)


def machine_rows(device, repeats: int) -> list[dict]:
    """The two numbers of a roofline: bytes and operations a second."""
    x = torch.empty(2**26, device=device).fill_(1.0)  # 256 MiB
    y = torch.empty_like(x)
    a = torch.randn(2048, 2048, device=device)
    ways = {"copy_": lambda: y.copy_(x), "matmul": lambda: a @ a}
    done = interleaved(ways, device, repeats)
    gigabytes = 2 * x.numel() * 4 / (done["copy_"][0] / 1000) / 1e9
    gigaflops = 2 * 2048**3 / (done["matmul"][0] / 1000) / 1e9
    common = {"part": "machine", "device": device.type, "dtype": "float32"}
    return [
        {**common, "what": "copy speed", "value": gigabytes, "note": "GB/s, read and written"},
        {**common, "what": "matmul speed", "value": gigaflops, "note": "Gflop/s"},
    ]


# The rotation


def peers(layout: str, q, k, n: int) -> dict[str, Callable]:
    """Other people's rotations of the same tensors, where they are installed."""
    found = {}
    inv_freq = inverse_frequencies(HEAD_DIM)
    cos, sin = (x.to(q.device) for x in rope_cos_sin(torch.arange(n), inv_freq))
    if layout == "half":
        try:
            from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
        except ImportError:
            pass
        else:
            wide = [torch.cat([x, x], -1)[None].to(q.dtype) for x in (cos, sin)]
            found["transformers, eager"] = lambda q, k: apply_rotary_pos_emb(q, k, *wide)
        if q.is_cuda:
            try:
                from liger_kernel.ops.rope import LigerRopeFunction
            except ImportError:
                pass
            else:
                table = [torch.cat([x, x], -1)[None].to(q.dtype) for x in (cos, sin)]

                def liger(q, k):
                    # It writes into what it is given.
                    return LigerRopeFunction.apply(q, k, *table)

                found["Liger, in place"] = liger
    else:
        try:
            from rotary_embedding_torch import RotaryEmbedding as Peer
        except ImportError:
            pass
        else:
            peer = Peer(HEAD_DIM).to(q.device)
            found["rotary-embedding-torch"] = lambda q, k: (
                peer.rotate_queries_or_keys(q),
                peer.rotate_queries_or_keys(k),
            )
    if q.is_cuda:
        try:
            from flash_attn.layers.rotary import apply_rotary_emb
        except ImportError:
            pass
        else:
            flat = cos.to(q.dtype), sin.to(q.dtype)

            def flash(q, k):
                turned = (
                    apply_rotary_emb(x.transpose(1, 2), *flat, interleaved=layout != "half")
                    for x in (q, k)
                )
                return tuple(x.transpose(1, 2) for x in turned)

            found["flash-attn"] = flash
    return found


def rope_rows(device, repeats: int, lengths, backends) -> list[dict]:
    rows = []
    for n in lengths:
        for dtype in (torch.float32, torch.bfloat16):
            for layout in ("half", "interleaved"):
                found = [
                    rope_point(device, max(3, repeats // PLACES), n, dtype, layout, backends)
                    for _ in range(PLACES)
                ]
                rows += [middle_row(same) for same in zip(*found, strict=True)]
    return rows


def middle_row(same: Sequence[dict]) -> dict:
    """Of rows that say the same about other places in memory, the median of every number."""
    numbers = ("milliseconds", "spread", "ratio_copy", "ratio_clone")
    return same[0] | {name: statistics.median(row[name] for row in same) for name in numbers}


def rope_point(device, repeats, n, dtype, layout, backends) -> list[dict]:
    generator = torch.Generator().manual_seed(n)

    def draw(heads):
        return torch.randn(1, heads, n, HEAD_DIM, generator=generator).to(device, dtype)

    q, k = draw(Q_HEADS), draw(K_HEADS)
    out = torch.empty_like(q), torch.empty_like(k)
    cos, sin = (x.to(device) for x in rope_cos_sin(torch.arange(n), inverse_frequencies(HEAD_DIM)))
    ways: dict[str, Callable] = {
        "copy_": lambda: (out[0].copy_(q), out[1].copy_(k)),
        "clone": lambda: (q.clone(), k.clone()),
    }
    turned = q.clone(), k.clone()  # again and again, which changes no length
    usable = [b for b in backends if why_not(b, device, dtype) is None]
    for backend in usable:
        options = {"layout": layout, "backend": backend}
        ways[f"{backend}"] = lambda o=options: apply_rope(q, k, cos, sin, **o)
        ways[f"{backend}, out="] = lambda o=options: apply_rope(q, k, cos, sin, **o, out=out)
        if backend in ("numba", "triton"):
            ways[f"{backend}, in place"] = lambda o=options: apply_rope(
                *turned, cos, sin, **o, out=turned
            )
    other = peers(layout, q, k, n)
    for name, run in other.items():
        ways[name] = lambda run=run: run(q, k)
    with torch.no_grad():
        forward = interleaved(ways, device, repeats)

    # Forward and backward: the gradient that arrives is there already.
    grads = torch.ones_like(q), torch.ones_like(k)

    def train(run):
        a, b = q.detach().requires_grad_(), k.detach().requires_grad_()
        torch.autograd.grad(run(a, b), (a, b), grads)

    both: dict[str, Callable] = {
        "copy_": lambda: [(out[0].copy_(q), out[1].copy_(k)) for _ in range(2)],
        "clone": lambda: [(q.clone(), k.clone()) for _ in range(2)],
    }
    for backend in usable:
        options = {"layout": layout, "backend": backend}
        both[backend] = lambda o=options: train(lambda a, b: apply_rope(a, b, cos, sin, **o))
    for name, run in other.items():
        if "in place" not in name:
            both[name] = lambda run=run: train(run)
    trained = interleaved(both, device, max(3, repeats // 2))

    rows = []
    for part, done in (("rope forward", forward), ("rope forward+backward", trained)):
        for name, (middle, spread) in done.items():
            rows.append(
                {
                    "part": part,
                    "what": name,
                    "device": device.type,
                    "dtype": str(dtype).removeprefix("torch."),
                    "layout": layout,
                    "n": n,
                    "milliseconds": middle,
                    "spread": spread,
                    "ratio_copy": middle / done["copy_"][0],
                    "ratio_clone": middle / done["clone"][0],
                }
            )
    print(f"rope {layout} {dtype} n={n}: done", file=sys.stderr, flush=True)
    return rows


# Biased attention

HEADS, WIDTH = 8, 64
ENCODINGS = {
    "ALiBi": lambda: ALiBi(HEADS),
    "T5": lambda: T5Bias(HEADS, bidirectional=False),
    "none": NoPE,
}


def attend(name: str, way: str, n: int, device: torch.device, train: bool) -> None:
    """One attention, forward or with its backward pass."""
    torch.manual_seed(0)
    encoding = ENCODINGS[name]().to(device)
    q, k, v = (torch.randn(1, HEADS, n, WIDTH, device=device) for _ in range(3))
    leaves = [x.requires_grad_(train) for x in (q, k, v)] + list(encoding.parameters())
    with torch.set_grad_enabled(train):
        if way == "materialised":
            places = torch.arange(n, device=device)
            bias = encoding.score_bias(places, places, q=q)
            out = attention(q, k, v, bias=bias, causal=True)
        else:
            out = biased_attention(q, k, v, encoding, causal=True)
    if train:
        torch.autograd.grad(out.sum(), leaves)


def attend_alone(name: str, way: str, n: int, device: torch.device, train: bool) -> None:
    """Print the seconds and the peak memory of one attention; run in a process of its own."""
    wait(device)
    if device.type == "cuda":
        attend(name, way, 128, device, train)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        attend(name, way, 128, device, train)
        forget_peak()
        before = peak_of_this_process()
    start = time.perf_counter()
    attend(name, way, n, device, train)
    wait(device)
    seconds = time.perf_counter() - start
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() - before
    else:
        peak = peak_of_this_process() - before
    print(seconds, peak)


def forget_peak() -> None:
    """Let the peak begin again at what is held now: what was freed could hide a smaller one."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        pass  # not Linux: peaks below that of the imports are lost


def peak_of_this_process() -> int:
    """The largest resident memory so far, in bytes.

    On Linux ``ru_maxrss`` begins at the peak of the process that started this one, which has
    measured rotations of gigabytes by then; ``VmHWM`` begins anew.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    except OSError:
        import resource

        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.mem_get_info()[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return math.inf


def attention_rows(device, lengths) -> list[dict]:
    rows = []
    for train in (False, True):
        for name in ("ALiBi", "T5"):
            for way in ("on the fly", "materialised"):
                points = []
                for n in lengths:
                    bias = HEADS * n * n * 4
                    # Scores, masked scores, weights and the bias: about six of that size.
                    if way == "materialised" and 7 * bias > 0.8 * free_memory(device):
                        print(f"attention {name} {way} n={n}: too large", file=sys.stderr)
                        continue
                    seconds, peak = in_a_process_of_its_own(name, way, n, device, train)
                    points.append((n, seconds, peak))
                    rows.append(
                        {
                            "part": "attention " + ("forward+backward" if train else "forward"),
                            "what": f"{name}, {way}",
                            "device": device.type,
                            "dtype": "float32",
                            "n": n,
                            "milliseconds": 1000 * seconds,
                            "peak_mib": peak / 2**20,
                            "of_bias": peak / bias,
                        }
                    )
                    print(f"attention {name} {way} n={n} train={train}: done", file=sys.stderr)
                rows.append(growth_row(rows[-1], points))
    return [row for row in rows if row]


def in_a_process_of_its_own(name, way, n, device, train) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.bench", "--alone", name, way, str(n)]
    command += [device.type, str(int(train))]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def growth_row(like: dict, points) -> dict:
    """Exponents of time and memory: the slopes of straight lines through the logarithms."""
    points = [p for p in points if p[2] > 0]
    if len(points) < 3:
        return {}
    time_slope, memory_slope = (
        slope([math.log(p[0]) for p in points], [math.log(p[i]) for p in points]) for i in (1, 2)
    )
    keep = {key: like[key] for key in ("part", "what", "device", "dtype")}
    sizes = f"n = {points[0][0]} … {points[-1][0]}"
    note = f"{sizes}: time grows like n^{time_slope:.2f}, memory like n^{memory_slope:.2f}"
    return {**keep, "note": note}


def slope(x: list[float], y: list[float]) -> float:
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


# A share of a step


class Layer(torch.nn.Module):
    """A transformer layer without its normalisations, around a rotation of one's choice."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(dim, 3 * dim), torch.nn.Linear(dim, dim)
        self.up, self.down = torch.nn.Linear(dim, 4 * dim), torch.nn.Linear(4 * dim, dim)

    def forward(self, x, turn):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = turn(q, k)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def share_rows(device, repeats: int) -> list[dict]:
    """How much of a transformer layer's forward pass the rotation is."""
    rows = []
    torch.manual_seed(0)
    layer = Layer(1024, 16).to(device)
    for n in (512, 2048):
        cos, sin = (x.to(device) for x in rope_cos_sin(torch.arange(n), inverse_frequencies(64)))
        x = torch.randn(1, n, 1024, device=device)

        def turned(q, k, backend, cos=cos, sin=sin):
            return apply_rope(q, k, cos, sin, backend=backend)

        ways = {
            "layer, no rotation": lambda x=x: layer(x, lambda q, k: (q, k)),
            "layer, rotation eager": lambda x=x, t=turned: layer(x, lambda q, k: t(q, k, "eager")),
            "layer, rotation auto": lambda x=x, t=turned: layer(x, lambda q, k: t(q, k, "auto")),
        }
        with torch.no_grad():
            done = interleaved(ways, device, repeats)
        base = done["layer, no rotation"][0]
        for name, (middle, spread) in done.items():
            row = {"part": "share of a layer", "what": name, "device": device.type, "n": n}
            row |= {"dtype": "float32", "milliseconds": middle, "spread": spread}
            share = 100 * (middle / base - 1)
            rows.append({**row, "note": f"{share:+.0f} % of the layer without rotation"})
    return rows


# Writing


def machine(device: torch.device) -> list[str]:
    lines = [
        f"- {platform.system()} {platform.machine()}, {os.cpu_count()} logical cores, "
        f"{torch.get_num_threads()} threads, load average {load()} at the start"
    ]
    if device.type == "cuda":
        lines.append(f"- {torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}")
    else:
        lines.append(
            "- no CUDA device: Triton, Liger, flash-attn and FlexAttention's backward pass did not "
            "run; `make bench` on a machine with one measures them"
        )
    names = ("torch", "numba", "triton", "transformers", "rotary-embedding-torch", "liger-kernel")
    found = []
    for name in (*names, "flash-attn"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return [*lines, "- Python " + platform.python_version() + ", " + ", ".join(found)]


def load() -> str:
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except OSError:
        return "unknown"


def write(rows: list[dict], about: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "bench.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for row in rows:
            table.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})
    (folder / "bench.md").write_text(markdown(rows, about), encoding="utf-8")


def markdown(rows: list[dict], about: list[str]) -> str:
    lines = ["# Benchmark", "", *about, ""]
    lines += [
        f"Rotation of {Q_HEADS} query heads and {K_HEADS} key heads of width {HEAD_DIM}; "
        f"attention of {HEADS} heads of width {WIDTH}, causal. "
        "Medians of runs taken in turn, each after an untimed copy of something else and with no "
        "memory in reserve; the spread is half the distance between the quartiles. Of a rotation, "
        f"the median of {PLACES} such, with tensors in other places.",
    ]
    speeds = {
        r["what"]: f"{r['value']:.1f} {r['note']}"
        for r in rows
        if r["part"] == "machine" and r["value"] != ""
    }
    lines += ["", "; ".join(f"{what} {speed}" for what, speed in speeds.items()) + "."]
    for part in dict.fromkeys(row["part"] for row in rows if row["part"] != "machine"):
        chosen = [row for row in rows if row["part"] == part]
        lines += ["", f"## {part[0].upper()}{part[1:]}", ""]
        if part.startswith("rope"):
            lines += rope_table(chosen)
        elif part.startswith("attention"):
            lines += ["| what | n | ms | peak MiB | peak ÷ one bias |", "|---|---|---|---|---|"]
            for row in (r for r in chosen if "n" in r):
                lines.append(
                    f"| {row['what']} | {row['n']} | {row['milliseconds']:.0f} | "
                    f"{row['peak_mib']:.0f} | {row['of_bias']:.3f} |"
                )
            lines += ["", *(f"- {r['what']}, {r['note']}" for r in chosen if "n" not in r)]
        else:
            lines += ["| what | n | ms | |", "|---|---|---|---|"]
            for r in chosen:
                lines.append(f"| {r['what']} | {r['n']} | {r['milliseconds']:.1f} | {r['note']} |")
    return "\n".join(lines) + "\n"


def rope_table(rows: list[dict]) -> list[str]:
    """One row for every way, one column for every length: time ÷ copy_ (time ÷ clone)."""
    lines = []
    lengths = sorted({row["n"] for row in rows})
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for layout in ("half", "interleaved"):
            chosen = [r for r in rows if r["dtype"] == dtype and r["layout"] == layout]
            if not chosen:
                continue
            lines += ["", f"{dtype}, {layout} layout: time ÷ `copy_` (time ÷ `clone`) ± spread", ""]
            lines.append("| | " + " | ".join(f"n = {n}" for n in lengths) + " |")
            lines.append("|---|" + "---|" * len(lengths))
            for what in dict.fromkeys(r["what"] for r in chosen):
                cells = []
                for n in lengths:
                    row = next(r for r in chosen if r["what"] == what and r["n"] == n)
                    cells.append(
                        f"{row['ratio_copy']:.2f} ({row['ratio_clone']:.2f}) "
                        f"± {100 * row['spread']:.0f} %"
                    )
                lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="*", default=["rope", "attention", "share"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--lengths", type=int, nargs="*", default=[512, 2048, 4096, 8192])
    parser.add_argument("--attention-lengths", type=int, nargs="*")
    parser.add_argument("--backends", nargs="*")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--alone", nargs=5, help=argparse.SUPPRESS)
    wanted = parser.parse_args(arguments)
    if wanted.alone:
        name, way, n, kind, train = wanted.alone
        attend_alone(name, way, int(n), torch.device(kind), train == "1")
        return 0
    kind = wanted.device or ("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(kind)
    about = machine(device)
    # Triton's interpreter on a CPU is for tests; its speed says nothing.
    fast = ["eager", "compiled", "numba"] if kind == "cpu" else ["eager", "compiled", "triton"]
    top = 65536 if kind == "cuda" else 16384
    longer = [n for n in (1024, 2048, 4096, 8192, 16384, 32768, 65536) if n <= top]
    rows = machine_rows(device, wanted.repeats)
    about_row = {"part": "machine", "what": "versions", "device": kind, "note": "; ".join(about)}
    rows.append({**about_row, "value": ""})
    parts = {
        "rope": lambda: rope_rows(device, wanted.repeats, wanted.lengths, wanted.backends or fast),
        "share": lambda: share_rows(device, wanted.repeats),
        "attention": lambda: attention_rows(device, wanted.attention_lengths or longer),
    }
    for name, measure in parts.items():
        if name in wanted.only:
            rows += measure()
            write(rows, about, wanted.output)  # after every part: the last one takes longest
    print((wanted.output / "bench.md").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
