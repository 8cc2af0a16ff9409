"""The book's experiments: every table of trained models, made by one command, in any number of
sittings.

Each training run has a folder of its own under ``out`` and is resumed from its last checkpoint;
each evaluation is kept beside the model it belongs to. So the command can be stopped and started
again, and a second start of a finished sweep only writes the tables.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from ..learned import LearnedEncoding
from .checkpoint import load_tensors, replace_file
from .corpus import Corpus, copy_corpus
from .evaluate import (
    LENGTHS,
    copy_accuracy,
    loss_by_length,
    loss_by_position,
    mean_loss,
    passkey_accuracy,
)
from .extension import METHODS, extended_rope
from .recipes import ENCODINGS, RECIPES
from .results import mean_and_spread, write_table
from .runs import Settings, load_model, model_facts, run, save_model, versions, with_encoding
from .train import train

SCARCE_BYTES = 65_536
"""The small data size: 600 steps go over it 18 times."""

ALPHAS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
COPY_SIZE = 12
COPY_DISTANCES = (12, 24, 36, 48, 64, 96, 128, 256, 512)
PASSKEYS = ((64, 24), (64, 48), (256, 24), (256, 200))  # length, distance
FACTORS = (2.0, 4.0, 8.0)
TUNE = {"steps": 60, "batch_size": 8, "learning_rate": 1e-3, "warmup": 10}
TUNE_FACTOR = 4.0
TUNE_METHODS = ("none", "position_interpolation", "ntk_aware", "yarn_1_8")


@dataclass
class Sweep:
    """Where a sweep works, and with what.

    Attributes:
        corpus: the text.
        out: folder of the training runs.
        results: folder of the tables.
        seeds: one run each.
        encodings: names of recipes.
        settings: those of every run; ``encoding`` and ``seed`` are filled in.
        lengths: lengths to evaluate at.
        chunk: bytes per evaluated chunk.
        num_chunks: evaluated chunks.
        device: where to compute.
        save_every: steps between two saves.
        say: told what happens, one line at a time.
        show_progress: whether runs have a progress bar.

    Raises:
        ValueError: no seed, encoding or length, or one of them twice: it would count twice in the
            means.
    """

    corpus: Corpus
    out: Path
    results: Path
    seeds: Sequence[int] = (0, 1, 2)
    encodings: Sequence[str] = tuple(RECIPES)
    settings: Settings = field(default_factory=Settings)
    lengths: Sequence[int] = LENGTHS
    chunk: int = 1024
    num_chunks: int = 64
    device: torch.device | str = "cpu"
    save_every: int = 50
    say: Callable[[str], None] = lambda line: None
    show_progress: bool = False

    def __post_init__(self) -> None:
        for name in ("seeds", "encodings", "lengths"):
            values = list(getattr(self, name))
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"{name} must be at least one, and none of them twice, got {values}"
                )

    # Runs

    def trained(
        self, encoding: str, seed: int, *, train_bytes: int | None = None, copies: bool = False
    ) -> Path:
        """The folder of a finished run, which is made or completed if need be."""
        settings = replace(self.settings, encoding=encoding, seed=seed, train_bytes=train_bytes)
        parts = [encoding, f"{train_bytes}-bytes" if train_bytes else "", "copies" * copies]
        folder = Path(self.out) / "-".join([part for part in parts if part] + [f"seed{seed}"])
        corpus = self.copies if copies else self.corpus
        self.say(folder.name)
        label = folder.name if self.show_progress else ""
        run(settings, corpus, folder, device=self.device, save_every=self.save_every, label=label)
        return folder

    @property
    def copies(self) -> Corpus:
        """The corpus in which looking back pays."""
        if not hasattr(self, "_copies"):
            self._copies = copy_corpus(self.corpus)
        return self._copies

    def kept(self, folder: Path, key: str, compute: Callable[[], object]):
        """``compute()``, or what it returned for the same model file before."""
        model = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
        key = f"{key}, {self.num_chunks} chunks of {self.chunk}, model {model}"
        path = folder / "evaluations.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if key not in known:
            known[key] = compute()
            text = json.dumps(known, indent=1)
            replace_file(path, lambda file: file.write(text.encode()))
        return known[key]

    def fitting(self, *factors: float) -> list[int]:
        """So many times the training length, where that divides the chunk."""
        lengths = [int(factor * self.settings.length) for factor in factors]
        return [length for length in lengths if self.chunk % length == 0]

    def options(self) -> dict:
        """For :func:`~posenc_tutorial.lm.loss_by_position`."""
        return {"chunk": self.chunk, "num_chunks": self.num_chunks}

    def facts(self, experiment: str, **more) -> dict:
        """What stands beside a table."""
        settings = asdict(self.settings)
        for varied in ("encoding", "seed", "train_bytes"):
            del settings[varied]
        return {
            "command": f"python -m posenc_tutorial.lm sweep {experiment}",
            "versions": versions(),
            "corpus": self.corpus.facts(),
            "settings": settings,
            "seeds": list(self.seeds),
            "evaluation": {**self.options(), "target_bytes": self.chunk * self.num_chunks},
            "device": torch.device(self.device).type,
            **more,
        }

    def write(self, name: str, rows: list[dict], by: Sequence[str], value: str, facts: dict):
        """A table of every seed, and one of means and sample standard deviations over seeds."""
        write_table(Path(self.results) / f"{name}.csv", rows, facts)
        summary = mean_and_spread(rows, by, value)
        told = {**facts, "columns": f"mean and sample standard deviation (std) of {value}, n seeds"}
        write_table(Path(self.results) / f"{name}_mean.csv", summary, told)

    # Experiments

    def run_encodings(self) -> None:
        """Every encoding, every seed: loss by length and by position."""
        by_length, by_position, runs = [], [], []
        data, longest = self.corpus.held_out, max(self.lengths)
        # Some 64 stretches, all of the same width.
        width = next(w for w in range(max(1, longest // 64), 0, -1) if longest % w == 0)
        for encoding in self.encodings:
            for seed in self.seeds:
                folder = self.trained(encoding, seed)
                facts = model_facts(folder)
                model = load_model(folder, device=self.device)
                who = {"encoding": encoding, "seed": seed}

                def measure(model=model):
                    shorter = [n for n in self.lengths if n != longest]
                    losses = loss_by_length(model, data, lengths=shorter, **self.options())
                    each = loss_by_position(model, data, length=longest, **self.options())
                    losses[longest] = each.mean().item()
                    return {
                        "length": {str(n): losses[n] for n in self.lengths},
                        "position": each.view(-1, width).mean(1).tolist(),
                    }

                got = self.kept(folder, f"loss at {list(self.lengths)}", measure)
                by_length += [
                    {**who, "length": int(n), "loss": x} for n, x in got["length"].items()
                ]
                by_position += [
                    {**who, "first": i * width, "last": (i + 1) * width - 1, "loss": x}
                    for i, x in enumerate(got["position"])
                ]
                parameters = sum(p.numel() for p in model.parameters())
                runs.append({**who, "parameters": parameters, "train_loss": facts["train_loss"]})
        columns = "loss: mean over all positions of windows of that length, nats per byte"
        self.write(
            "length",
            by_length,
            ["encoding", "length"],
            "loss",
            self.facts("encodings", columns=columns),
        )
        columns = f"loss of the bytes first … last of windows of {longest}, nats per byte"
        self.write(
            "position",
            by_position,
            ["encoding", "first", "last"],
            "loss",
            self.facts("encodings", columns=columns),
        )
        columns = "train_loss: mean of the last 50 steps, nats per byte"
        write_table(Path(self.results) / "runs.csv", runs, self.facts("encodings", columns=columns))

    def run_data_size(self) -> None:
        """Learned and sinusoidal positions with scarce and with plentiful data."""
        rows = []
        for size in (SCARCE_BYTES, None):
            for encoding in ("learned", "sinusoidal"):
                if encoding not in self.encodings:
                    continue
                for seed in self.seeds:
                    folder = self.trained(encoding, seed, train_bytes=size)
                    model = load_model(folder, device=self.device)
                    seen = self.corpus.train[:size]

                    def measure(model=model, seen=seen):
                        length = self.settings.length
                        return [
                            mean_loss(model, text, length=length, **self.options())
                            for text in (seen, self.corpus.held_out)
                        ]

                    seen_loss, held_out_loss = self.kept(folder, "seen and held out", measure)
                    rows.append(
                        {
                            "encoding": encoding,
                            "train_bytes": len(seen),
                            "seed": seed,
                            "seen_loss": seen_loss,
                            "held_out_loss": held_out_loss,
                        }
                    )
        columns = "losses at the training length, on training bytes and on held-out bytes"
        self.write(
            "data_size",
            rows,
            ["encoding", "train_bytes"],
            "held_out_loss",
            self.facts("data-size", columns=columns),
        )

    def run_copy(self) -> None:
        """Retrieval: copying letters from a distance, and a number, after training on copies."""
        rows = []
        data = self.corpus.held_out
        distances = [d for d in COPY_DISTANCES if d + COPY_SIZE <= 16 * self.settings.length]
        for encoding in self.encodings:
            if encoding not in ENCODINGS:
                continue
            for seed in self.seeds:
                folder = self.trained(encoding, seed, copies=True)
                model = load_model(folder, device=self.device)

                def measure(model=model):
                    return [
                        copy_accuracy(model, data, distance=d, size=COPY_SIZE, num_sequences=128)
                        for d in distances
                    ]

                accuracies = self.kept(folder, f"copies at {distances}", measure)
                rows += [
                    {"encoding": encoding, "seed": seed, "distance": d, "accuracy": accuracy}
                    for d, accuracy in zip(distances, accuracies, strict=True)
                ]
        columns = "accuracy: of the last 8 of 12 random letters, after 4, copied from that distance"
        self.write(
            "copy",
            rows,
            ["encoding", "distance"],
            "accuracy",
            self.facts("copy", columns=columns, copies=self.copies.facts(), chance=1 / 26),
        )

    def run_passkey(self) -> None:
        """The models of the main comparison, asked for a number that stood earlier in the text."""
        rows = []
        for encoding in self.encodings:
            if encoding not in ENCODINGS:
                continue
            for seed in self.seeds:
                folder = self.trained(encoding, seed)
                model = load_model(folder, device=self.device)
                for length, distance in PASSKEYS:
                    if length > 16 * self.settings.length:
                        continue
                    accuracy = self.kept(
                        folder,
                        f"passkey at {distance} in {length}",
                        lambda model=model, where=(length, distance): passkey_accuracy(
                            model, self.corpus.held_out, length=where[0], distance=where[1]
                        ),
                    )
                    rows.append(
                        {
                            "encoding": encoding,
                            "seed": seed,
                            "length": length,
                            "distance": distance,
                            "accuracy": accuracy,
                        }
                    )
        columns = "accuracy: of 5 digits that stood so many bytes before, in texts of that length"
        self.write(
            "passkey",
            rows,
            ["encoding", "length", "distance"],
            "accuracy",
            self.facts("passkey", columns=columns, chance=0.1),
        )

    def _extended(self, folder: Path, method: str, factor: float):
        model = load_model(folder, device=self.device)
        head_dim = self.settings.dim // self.settings.num_heads
        encoding = extended_rope(
            method, factor=factor, length=self.settings.length, head_dim=head_dim
        )
        return with_encoding(model, encoding)

    def run_extension(self) -> None:
        """The trained RoPE model on longer texts, with every method and no further training."""
        rows = []
        for seed in self.seeds:
            folder = self.trained("rope", seed)
            for method in METHODS:
                for factor in FACTORS:
                    lengths = self.fitting(1, factor)

                    def measure(folder=folder, method=method, factor=factor, lengths=lengths):
                        model = self._extended(folder, method, factor)
                        data = self.corpus.held_out
                        losses = loss_by_length(model, data, lengths=lengths, **self.options())
                        return list(losses.values())

                    key = f"extension: {method}, factor {factor}, at {lengths}"
                    rows += [
                        {
                            "method": method,
                            "factor": factor,
                            "length": length,
                            "seed": seed,
                            "loss": loss,
                        }
                        for length, loss in zip(
                            lengths, self.kept(folder, key, measure), strict=True
                        )
                    ]
        self.write(
            "extension",
            rows,
            ["method", "factor", "length"],
            "loss",
            self.facts("extension", columns="loss: the trained RoPE model, run with the method"),
        )

    def run_alpha(self) -> None:
        """How much to scale: the same lengths for a range of factors, with two exponents."""
        rows = []
        lengths = self.fitting(1, 4)
        for seed in self.seeds:
            folder = self.trained("rope", seed)
            for method in ("ntk_aware", "base_times_factor"):
                for alpha in ALPHAS:

                    def measure(folder=folder, method=method, alpha=alpha):
                        model = self._extended(folder, method, alpha)
                        data = self.corpus.held_out
                        losses = loss_by_length(model, data, lengths=lengths, **self.options())
                        return list(losses.values())

                    key = f"alpha: {method}, {alpha}, at {lengths}"
                    losses = self.kept(folder, key, measure)
                    rows += [
                        {
                            "method": method,
                            "alpha": alpha,
                            "length": length,
                            "seed": seed,
                            "loss": loss,
                        }
                        for length, loss in zip(lengths, losses, strict=True)
                    ]
        self.write(
            "alpha",
            rows,
            ["method", "alpha", "length"],
            "loss",
            self.facts("alpha", columns="loss: the trained RoPE model, run with this alpha"),
        )

    def run_fine_tune(self) -> None:
        """A short training on sequences four times as long, after each way of getting there."""
        rows = []
        jobs = [("rope", method) for method in TUNE_METHODS]
        jobs += [
            (encoding, m) for encoding in ("learned", "sinusoidal") for m in ("none", "scaled")
        ]
        for encoding, method in jobs:
            for seed in self.seeds:
                base = self.trained(encoding, seed)
                for steps in (0, TUNE["steps"]):
                    folder = self._tuned(base, encoding, method, seed, steps)
                    for length, loss in self._tuned_losses(folder, base, encoding, method):
                        rows.append(
                            {
                                "encoding": encoding,
                                "method": method,
                                "steps": steps,
                                "length": length,
                                "seed": seed,
                                "loss": loss,
                            }
                        )
        self.write(
            "fine_tune",
            rows,
            ["encoding", "method", "steps", "length"],
            "loss",
            self.facts(
                "fine-tune",
                columns="loss after so many steps of training on longer sequences (0: none)",
                fine_tuning={**TUNE, "factor": TUNE_FACTOR, "weights from": "float16"},
            ),
        )

    def _stretched(self, base: Path, encoding: str, method: str):
        """The trained model made ready for longer texts, and how its positions are counted."""
        if encoding == "rope":
            return self._extended(base, method, TUNE_FACTOR), 1.0
        model = load_model(base, device=self.device)
        if method == "none":
            return model, 1.0
        if encoding == "sinusoidal":  # position p gets the clocks of p / 4
            return model, TUNE_FACTOR
        trained = LearnedEncoding(self.settings.length, self.settings.dim)
        with torch.no_grad():
            trained.weight.copy_(model.encoding.weight[: self.settings.length])
        longer = int(TUNE_FACTOR) * self.settings.length
        return with_encoding(model, trained.resized(longer, "linear")), 1.0

    def _positions(self, length: int, divided_by: float):
        return None if divided_by == 1 else torch.arange(length).float() / divided_by

    def _tuned(self, base: Path, encoding: str, method: str, seed: int, steps: int) -> Path:
        if steps == 0:
            return base
        folder = base.parent / f"tuned-{encoding}-{method}-seed{seed}"
        folder.mkdir(exist_ok=True)
        self.say(folder.name)
        model, divided_by = self._stretched(base, encoding, method)
        longer = int(TUNE_FACTOR) * self.settings.length
        train(
            model,
            self.corpus.train,
            **TUNE,
            length=longer,
            positions=self._positions(longer, divided_by),
            seed=1000 + seed,
            checkpoint=folder / "state.safetensors",
            save_every=self.save_every,
            log=folder / "log.csv",
            label=folder.name if self.show_progress else "",
        )
        settings = replace(self.settings, encoding=encoding, seed=seed)
        save_model(folder / "model.safetensors", model, settings, corpus=self.corpus)
        return folder

    def _tuned_losses(self, folder: Path, base: Path, encoding: str, method: str):
        # The stretched table ends at four times the length.
        lengths = self.fitting(1, 2, 4) if encoding == "learned" else self.fitting(1, 2, 4, 8)

        def measure():
            model, divided_by = self._stretched(base, encoding, method)
            if folder != base:
                tensors, _ = load_tensors(folder / "model.safetensors")
                with torch.no_grad():
                    for name, parameter in model.named_parameters():
                        parameter.copy_(tensors[name])
            return [
                mean_loss(
                    model,
                    self.corpus.held_out,
                    length=n,
                    positions=self._positions(n, divided_by),
                    **self.options(),
                )
                for n in lengths
            ]

        key = f"stretched: {encoding}, {method}, at {lengths}"
        return zip(lengths, self.kept(folder, key, measure), strict=True)


EXPERIMENTS: dict[str, Callable[[Sweep], None]] = {
    "encodings": Sweep.run_encodings,
    "data-size": Sweep.run_data_size,
    "passkey": Sweep.run_passkey,
    "copy": Sweep.run_copy,
    "extension": Sweep.run_extension,
    "alpha": Sweep.run_alpha,
    "fine-tune": Sweep.run_fine_tune,
}
"""Every experiment by its name on the command line."""

NEEDED = {"data-size": ("learned", "sinusoidal"), "passkey": ENCODINGS, "copy": ENCODINGS}
"""Of these encodings an experiment needs one at least; the others need none in particular."""


def install_checkpoints(out: Path | str, folder: Path | str, *, seed: int = 0) -> list[Path]:
    """Copy one seed's model of each of the seven encodings.

    Args:
        out: folder of the training runs.
        folder: where they go, as ``<encoding>.safetensors``.
        seed: which.

    Raises:
        FileNotFoundError: a run that is not finished.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for encoding in ENCODINGS:
        source = Path(out) / f"{encoding}-seed{seed}" / "model.safetensors"
        target = folder / f"{encoding}.safetensors"
        shutil.copyfile(source, target)
        made.append(target)
    return made
