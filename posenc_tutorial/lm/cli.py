"""The command line: ``python -m posenc_tutorial.lm train|evaluate|sweep|compare``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from .. import device as chosen_device
from .checkpoint import load_tensors
from .corpus import Corpus, folder_corpus, standard_library_corpus
from .evaluate import (
    LENGTHS,
    copy_accuracy,
    loss_by_length,
    loss_by_position,
    passkey_accuracy,
)
from .recipes import ENCODINGS, RECIPES
from .runs import Settings, build_model, checkpoint_path, load_model, model_facts, run
from .sweep import EXPERIMENTS, NEEDED, Sweep, install_checkpoints


def _whole(low: int):
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise argparse.ArgumentTypeError(f"must be a whole number >= {low}, got {text!r}")
        return number

    return parse


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number > 0, got {text!r}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m posenc_tutorial.lm",
        description="Train and evaluate a small byte-level language model with any encoding.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, epilog: str | None = None):
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        return sub

    def corpus(sub) -> None:
        sub.add_argument(
            "--text",
            metavar="FOLDER",
            type=Path,
            help="learn from the files of this folder; default: Python's standard library",
        )
        sub.add_argument(
            "--pattern", default="*.txt", help="which files of --text (default: %(default)s)"
        )
        sub.add_argument(
            "--held-out-every",
            type=_whole(2),
            default=10,
            metavar="N",
            help="every N-th file is held out, N >= 2 (default: %(default)s)",
        )

    def place(sub) -> None:
        sub.add_argument(
            "--device",
            choices=("auto", "cpu", "cuda"),
            default="auto",
            help="auto: POSENC_DEVICE decides, else a GPU if there is one (default: auto)",
        )
        sub.add_argument(
            "--threads", type=_whole(1), metavar="N", help="CPU threads (default: PyTorch's)"
        )

    def shape(sub) -> None:
        standard = Settings()
        for name, low, text in (
            ("length", 1, "bytes per window"),
            ("steps", 1, "number of updates"),
            ("batch-size", 1, "windows per update, over all processes"),
            ("warmup", 0, "steps of warm-up"),
            ("dim", 2, "model width"),
            ("num-layers", 1, "number of blocks"),
            ("num-heads", 1, "heads per block"),
        ):
            default = getattr(standard, name.replace("-", "_"))
            sub.add_argument(
                f"--{name}",
                type=_whole(low),
                default=default,
                metavar="N",
                help=f"{text}, >= {low} (default: {default})",
            )
        sub.add_argument(
            "--learning-rate",
            type=_rate,
            default=standard.learning_rate,
            metavar="X",
            help=f"at its peak, > 0 (default: {standard.learning_rate})",
        )
        sub.add_argument(
            "--save-every",
            type=_whole(1),
            default=50,
            metavar="N",
            help="steps between two checkpoints (default: %(default)s)",
        )

    def evaluation(sub) -> None:
        sub.add_argument(
            "--lengths",
            type=_whole(1),
            nargs="+",
            default=list(LENGTHS),
            metavar="N",
            help="bytes of context; each must divide --chunk (default: %(default)s)",
        )
        sub.add_argument(
            "--chunk", type=_whole(1), default=1024, metavar="N", help="default: %(default)s"
        )
        sub.add_argument(
            "--num-chunks",
            type=_whole(1),
            default=64,
            metavar="N",
            help="chunks of held-out text that are scored (default: %(default)s)",
        )

    sub = command(
        "train",
        "train one model, or go on where the last attempt stopped",
        "On several processes: torchrun --nproc-per-node 2 -m posenc_tutorial.lm train ...\n"
        "(NCCL on GPUs, gloo on CPUs; the batch is shared among the processes).",
    )
    sub.add_argument("--encoding", choices=tuple(RECIPES), default="rope", help="default: rope")
    sub.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="default: 0")
    sub.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="state, log and model go here (default: runs/<encoding>-seed<seed>)",
    )
    sub.add_argument(
        "--train-bytes",
        type=_whole(2),
        metavar="N",
        help="use only the first N training bytes (default: all)",
    )
    shape(sub), corpus(sub), place(sub)

    sub = command("evaluate", "measure a trained model: loss by length, by position, by task")
    sub.add_argument(
        "model",
        help=f"a file, a run's folder, or one that comes with the package: {', '.join(ENCODINGS)}",
    )
    sub.add_argument(
        "--by",
        choices=("length", "position", "copy", "passkey"),
        default="length",
        help="length: mean loss; position: loss in stretches of the longest window; "
        "copy, passkey: accuracy by distance (default: length)",
    )
    sub.add_argument(
        "--distances",
        type=_whole(16),
        nargs="+",
        default=[16, 32, 48, 64, 128, 256, 512],
        metavar="N",
        help="for copy and passkey, >= 16 (default: %(default)s)",
    )
    evaluation(sub), corpus(sub), place(sub)

    sub = command(
        "sweep",
        "make the book's tables: train all models, evaluate them; resumable",
        "Experiments: " + ", ".join(EXPERIMENTS) + "; none named: all of them.",
    )
    sub.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help="see below (default: all)"
    )
    sub.add_argument("--out", type=Path, default=Path("runs"), help="default: runs")
    sub.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="where the tables go (default: <out>/results)",
    )
    sub.add_argument(
        "--checkpoints",
        type=Path,
        metavar="FOLDER",
        help="also copy the first seed's models of the seven encodings here",
    )
    sub.add_argument(
        "--encodings",
        nargs="+",
        choices=tuple(RECIPES),
        default=list(RECIPES),
        metavar="NAME",
        help=f"default: all of {', '.join(RECIPES)}",
    )
    sub.add_argument(
        "--seeds", type=_whole(0), nargs="+", default=[0, 1, 2], metavar="N", help="default: 0 1 2"
    )
    shape(sub), evaluation(sub), corpus(sub), place(sub)

    sub = command("compare", "how far apart the weights of two models are")
    sub.add_argument("one", help="as in evaluate")
    sub.add_argument("two", help="as in evaluate")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: default ``sys.argv[1:]``.

    Returns:
        The exit status: 0, or 2 after a message about what was wrong.
    """
    options = _parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except (
        ValueError, TypeError, IndexError, OSError, FloatingPointError, RuntimeError
    ) as error:  # fmt: skip
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            if "POSENC_DEVICE" not in str(error) and "no CUDA" not in str(error):
                raise  # not something that other arguments would cure
        print(f"python -m posenc_tutorial.lm: error: {error}", file=sys.stderr)
        return 2


def _corpus(options) -> Corpus:
    if options.text is None:
        return standard_library_corpus(held_out_every=options.held_out_every)
    return folder_corpus(
        options.text, pattern=options.pattern, held_out_every=options.held_out_every
    )


def _device(options) -> torch.device:
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    if options.device == "auto":
        return chosen_device()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("--device cuda, but there is no CUDA device; use cpu or auto")
    return torch.device(options.device)


def _settings(options, **more) -> Settings:
    settings = Settings(
        length=options.length,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        warmup=options.warmup,
        dim=options.dim,
        num_layers=options.num_layers,
        num_heads=options.num_heads,
        **more,
    )
    build_model(settings)  # sizes that do not fit each other are told before any work
    return settings


def _train(options) -> int:
    settings = _settings(
        options,
        encoding=options.encoding,
        seed=options.seed,
        train_bytes=options.train_bytes,
    )
    place = _device(options)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # set by torchrun
    if several:
        backend = "gloo"
        if place.type == "cuda":
            place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(place)
            backend = "nccl"
        torch.distributed.init_process_group(backend)
    first = not several or torch.distributed.get_rank() == 0
    try:
        corpus = _corpus(options)
        folder = options.out or Path("runs") / f"{options.encoding}-seed{options.seed}"
        if first:
            print(corpus.description)
        path = run(
            settings,
            corpus,
            folder,
            device=place,
            save_every=options.save_every,
            label=options.encoding,
        )
        if first:
            loss = model_facts(path)["train_loss"]
            print(f"{path}: training loss {loss:.4f} nats per byte over the last 50 steps")
    finally:
        if several:
            torch.distributed.destroy_process_group()
    return 0


def _evaluate(options) -> int:
    _check_lengths(options)
    place = _device(options)
    path = checkpoint_path(options.model)
    model = load_model(path, device=place)
    corpus = _corpus(options)
    data = corpus.held_out
    facts = model_facts(path)
    print(
        f"# model: {path.name}, {facts['settings']['encoding']}, seed {facts['settings']['seed']}"
    )
    print(f"# corpus: {corpus.description}")
    if facts["corpus"] and facts["corpus"]["sha256"] != corpus.sha256:
        print(f"# trained on another corpus: {facts['corpus']['description']}")
    how = {"chunk": options.chunk, "num_chunks": options.num_chunks}
    if options.by == "length":
        print("length,loss")
        for length in options.lengths:
            for n, loss in loss_by_length(model, data, lengths=[length], **how).items():
                print(f"{n},{loss:.4f}", flush=True)
    elif options.by == "position":
        longest = max(options.lengths)
        losses = loss_by_position(model, data, length=longest, **how)
        print("first,last,loss")
        edge = 0
        for end in sorted(set(options.lengths)):
            print(f"{edge},{end - 1},{losses[edge:end].mean().item():.4f}")
            edge = end
    else:
        print("distance,accuracy")
        for distance in options.distances:
            if options.by == "copy":
                accuracy = copy_accuracy(model, data, distance=distance, size=12)
            else:
                accuracy = passkey_accuracy(model, data, length=distance + 16, distance=distance)
            print(f"{distance},{accuracy:.4f}", flush=True)
    return 0


def _sweep(options) -> int:
    unknown = [name for name in options.experiments if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(
            f"unknown experiment {unknown[0]!r}; it must be one of {', '.join(EXPERIMENTS)}"
        )
    _check_lengths(options)
    for name in options.experiments or EXPERIMENTS:
        needed = NEEDED.get(name, options.encodings)
        if not set(needed) & set(options.encodings):
            raise ValueError(
                f"experiment {name!r} needs one of {', '.join(needed)} among --encodings, "
                f"got {', '.join(options.encodings)}"
            )
    sweep = Sweep(
        corpus=_corpus(options),
        out=options.out,
        results=options.results or options.out / "results",
        seeds=options.seeds,
        encodings=options.encodings,
        settings=_settings(options),
        lengths=options.lengths,
        chunk=options.chunk,
        num_chunks=options.num_chunks,
        device=_device(options),
        save_every=options.save_every,
        say=lambda line: print(line, flush=True),
        show_progress=True,
    )
    print(sweep.corpus.description, flush=True)
    for name in options.experiments or EXPERIMENTS:
        print(f"== {name}", flush=True)
        EXPERIMENTS[name](sweep)
    if options.checkpoints is not None:
        for path in install_checkpoints(options.out, options.checkpoints, seed=options.seeds[0]):
            print(path)
    return 0


def _check_lengths(options) -> None:
    wrong = [n for n in options.lengths if options.chunk % n]
    if wrong:
        raise ValueError(f"--lengths must divide --chunk {options.chunk}, got {wrong[0]}")


def _compare(options) -> int:
    one, two = (load_tensors(checkpoint_path(name))[0] for name in (options.one, options.two))
    if one.keys() != two.keys():
        raise ValueError(f"different weights: {sorted(one.keys() ^ two.keys())}")
    shapes = [name for name in one if one[name].shape != two[name].shape]
    if shapes:
        raise ValueError(f"different shapes: {shapes}")
    pairs = [(one[name], two[name]) for name in one]
    equal = all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)
    # One tensor: its maximum is nan if anything is, and Python's max() may pass a nan over.
    apart = torch.cat([(a.double() - b.double()).abs().flatten() for a, b in pairs])
    most = float(apart.max()) if len(apart) else 0.0
    told = "equal bit for bit" if equal else f"largest difference {most:.3g}"
    print(f"{len(one)} tensors: {told}")
    return 0


COMMANDS = {"train": _train, "evaluate": _evaluate, "sweep": _sweep, "compare": _compare}
