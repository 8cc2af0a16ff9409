"""A minimal Llama: the decoder that most open language models share, in one readable file.

Source: Touvron et al. 2023 (arXiv 2302.13971), with the grouped queries of Ainslie et al. 2023
(arXiv 2305.13245). Positions enter by door 3 alone, through :attr:`Llama.encoding`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from ..attention import KeyValueCache
from ..encoding import NoPE, PositionalEncoding
from ..frequencies import token_positions
from ..lm.progress import progress
from ..rope import RotaryEmbedding, convert_projection


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama, under the names that this package uses.

    Args:
        num_layers: number of decoder layers.
        dim: model width.
        hidden_dim: width inside the gated MLP.
        num_heads: query heads; ``head_dim = dim / num_heads``.
        num_kv_heads: key and value heads, each shared by ``num_heads / num_kv_heads`` query heads.
        vocabulary: number of tokens.
        context_length: tokens of the longest text that the model was trained on.
        rope_base: base of the rotary frequencies.
        norm_epsilon: epsilon of every RMS norm.

    Raises:
        ValueError: a size below 1; sizes that do not divide each other.
    """

    num_layers: int
    dim: int
    hidden_dim: int
    num_heads: int
    num_kv_heads: int
    vocabulary: int
    context_length: int
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name, size in vars(self).items():
            if name not in ("rope_base", "norm_epsilon") and size < 1:
                raise ValueError(f"{name} must be >= 1, got {size}")
        if self.dim % self.num_heads:
            raise ValueError(f"dim {self.dim} is not a multiple of num_heads {self.num_heads}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}"
            )

    @property
    def head_dim(self) -> int:
        """Channels of one head."""
        return self.dim // self.num_heads


class Llama(nn.Module):
    """Embedding, pre-norm layers of attention and gated MLP, a norm, and the embedding again.

    The output shares the embedding's weights. Tested against transformers' ``LlamaForCausalLM``
    on the same weights.

    Args:
        config: the sizes.
        encoding: what turns queries and keys; default the model's own rotary embedding in the
            half layout. :class:`~posenc_tutorial.encoding.NoPE` turns nothing.

    Attributes:
        config: the sizes.
        encoding: the encoding in use. :meth:`with_encoding` makes a model with another one.

    Raises:
        TypeError: an encoding that is none, or that opens another door than the third.
    """

    def __init__(self, config: LlamaConfig, encoding: PositionalEncoding | None = None) -> None:
        super().__init__()
        self.config = config
        if encoding is None:
            encoding = RotaryEmbedding(config.head_dim, base=config.rope_base)
        self.encoding = _door_three(encoding)
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.dim, eps=config.norm_epsilon)

    def with_encoding(self, encoding: PositionalEncoding) -> Llama:
        """The same model, weights shared, with another encoding at door 3.

        Args:
            encoding: for example a :class:`~posenc_tutorial.rope.RotaryEmbedding` with the
                parameters of a context extension.

        Returns:
            A new model; this one stays as it is.

        Raises:
            TypeError: as in the constructor.
        """
        other = copy.copy(self)
        other._modules = {**self._modules, "encoding": _door_three(encoding)}
        return other

    def to_layout(self, layout: str) -> Llama:
        """A model with the rows of ``W_q`` and ``W_k`` in another pair layout, and that rotation.

        The scores stay the same. All other weights are shared with this model.

        Args:
            layout: ``"half"`` or ``"interleaved"``.

        Returns:
            A new model; this one stays as it is. It has the same frequencies.

        Raises:
            TypeError: the encoding in use is not a RotaryEmbedding, so there is no layout.
            ValueError: an unknown layout.
        """
        if not isinstance(self.encoding, RotaryEmbedding):
            raise TypeError(f"{type(self.encoding).__name__} has no pair layout")
        old = self.encoding
        other = self.with_encoding(
            RotaryEmbedding(
                old.head_dim,
                rotary_dim=old.rotary_dim,
                layout=layout,
                parameters=old.parameters_at if old.length_dependent else old.parameters_at(1),
            ).to(self.embedding.weight.device)
        )
        if layout == old.layout:
            return other
        layers = []
        for layer in self.layers:
            layer = copy.copy(layer)
            layer._modules = {
                **layer._modules,
                "query": _converted(layer.query, self.config.num_heads, layout, old.rotary_dim),
                "key": _converted(layer.key, self.config.num_kv_heads, layout, old.rotary_dim),
            }
            layers.append(layer)
        other._modules["layers"] = nn.ModuleList(layers)
        return other

    def new_caches(self) -> list[KeyValueCache]:
        """Empty caches, one for each layer."""
        return [KeyValueCache() for _ in self.layers]

    def forward(
        self,
        tokens: torch.Tensor,
        *,
        positions: torch.Tensor | None = None,
        caches: list[KeyValueCache] | None = None,
        last: int | None = None,
    ) -> torch.Tensor:
        """Scores of the next token after each token.

        A token sees the tokens that were fed before it and itself, whatever their positions say:
        positions may have gaps, or be wrong on purpose.

        Args:
            tokens: ``(batch, n)``, integers.
            positions: ``(n,)`` or ``(batch, n)``; default ``0 … n - 1``, or counting on from the
                caches. One set of positions serves all layers.
            caches: from :meth:`new_caches`; the tokens are added to them.
            last: return the scores of only so many tokens at the end. A long text with a large
                vocabulary needs more memory for its scores than for all the rest.

        Returns:
            ``(batch, n or last, vocabulary)``.

        Raises:
            IndexError: a token outside the vocabulary.
            TypeError: tokens that are not integers.
            ValueError: shapes that do not fit; a number of caches other than the layers'.
        """
        tokens = _check_tokens(tokens, self.config.vocabulary)
        n = tokens.shape[1]
        if last is not None and not 1 <= last <= n:
            raise ValueError(f"last must be 1 to {n}, the number of tokens, got {last}")
        if caches is not None and len(caches) != len(self.layers):
            raise ValueError(f"expected {len(self.layers)} caches, got {len(caches)}")
        if positions is None:
            filled = caches is not None and len(caches[0])
            positions = caches[0].next_positions(n) if filled else torch.arange(n)
        positions = token_positions(positions, tokens.shape[0], n, "positions").to(tokens.device)
        x = self.embedding(tokens)  # (batch, n, dim)
        for index, layer in enumerate(self.layers):
            x = layer(x, self.encoding, positions, None if caches is None else caches[index])
        x = self.norm(x if last is None else x[:, -last:])
        return x @ self.embedding.weight.T

    @torch.no_grad()
    def losses(
        self,
        tokens: torch.Tensor | list[int],
        *,
        positions: torch.Tensor | None = None,
        last: int | None = None,
    ) -> torch.Tensor:
        """What it costs to predict each token from those before it.

        Args:
            tokens: ``n`` token numbers of one text, a list or ``(n,)``. The last is only a target.
            positions: of the first ``n - 1``; default ``0 … n - 2``.
            last: only the last so many targets, all of the context.

        Returns:
            ``(n - 1 or last,)``, nats per token, float32. The mean's exponential is the
            perplexity.

        Raises:
            IndexError: a token outside the vocabulary, the last one included.
            TypeError: tokens that are not integers.
            ValueError: fewer than two tokens.
        """
        tokens = torch.as_tensor(tokens, device=self.embedding.weight.device)
        if tokens.ndim != 1 or len(tokens) < 2:
            raise ValueError(f"expected at least 2 tokens of one text, got {tuple(tokens.shape)}")
        # The last token too: cross_entropy would pass over a target of -100 and call its loss 0.
        tokens = _check_tokens(tokens[None], self.config.vocabulary)[0]
        logits = self(tokens[None, :-1], positions=positions, last=last)[0]
        return F.cross_entropy(logits.float(), tokens[-len(logits) :], reduction="none")


@torch.no_grad()
def generate(
    model: Llama,
    tokens: list[int],
    max_new_tokens: int,
    *,
    stop: int | None = None,
) -> list[int]:
    """Continue a text greedily: the most probable token, again and again, with a cache.

    At a terminal a bar shows how far it is.

    Args:
        model: the model.
        tokens: the prompt, at least one token.
        max_new_tokens: stop after so many.
        stop: stop before this token.

    Returns:
        The new tokens, without the prompt and without ``stop``.

    Raises:
        ValueError: an empty prompt or a negative number of tokens.
    """
    if not tokens or max_new_tokens < 0:
        raise ValueError(
            "expected a prompt of at least 1 token and max_new_tokens >= 0, "
            f"got {len(tokens)} and {max_new_tokens}"
        )
    device = model.embedding.weight.device
    caches = model.new_caches()
    new: list[int] = []
    feed = list(tokens)
    for _ in progress(range(max_new_tokens), max_new_tokens, label="tokens"):
        logits = model(torch.tensor([feed], device=device), caches=caches, last=1)
        feed = [int(logits[0, -1].argmax())]
        if feed[0] == stop:
            break
        new += feed
    return new


class _Layer(nn.Module):
    """Normalise, attend, add; normalise, gated MLP, add."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        dim, kv_dim = config.dim, config.num_kv_heads * config.head_dim
        self.head_dim = config.head_dim
        self.attention_norm = nn.RMSNorm(dim, eps=config.norm_epsilon)
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, kv_dim, bias=False)
        self.value = nn.Linear(dim, kv_dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp_norm = nn.RMSNorm(dim, eps=config.norm_epsilon)
        self.gate = nn.Linear(dim, config.hidden_dim, bias=False)
        self.up = nn.Linear(dim, config.hidden_dim, bias=False)
        self.down = nn.Linear(config.hidden_dim, dim, bias=False)

    def forward(self, x, encoding, positions, cache) -> torch.Tensor:
        x = x + self.attend(self.attention_norm(x), encoding, positions, cache)
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))  # SwiGLU

    def attend(self, x, encoding, positions, cache) -> torch.Tensor:
        # (batch, n, width) -> (batch, heads, n, head_dim)
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        k_positions = positions
        if cache is None:
            q, k = encoding.rotate_query_key(q, k, positions, positions)
        elif encoding.length_dependent:
            # The angles of old keys change as the text grows: keep the keys unrotated.
            cache.append(k, v, positions)
            k, v, k_positions = cache.keys, cache.values, cache.positions
            q, k = encoding.rotate_query_key(q, k, positions, k_positions)
        else:
            q, k = encoding.rotate_query_key(q, k, positions, positions)
            cache.append(k, v, positions)
            k, v = cache.keys, cache.values
        mixed = _causal_attention(q, k, v)  # (batch, heads, n, head_dim)
        return self.out(mixed.transpose(1, 2).flatten(2))


def _causal_attention(q, k, v) -> torch.Tensor:
    """Attention of the last ``n_q`` tokens over all ``n_k``, without an ``n_q × n_k`` matrix.

    Each key head is repeated for the queries that share it. PyTorch's own function aligns
    ``is_causal`` at the first key, which is right only when queries and keys are the same tokens.
    """
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    n_q, n_k = q.shape[2], k.shape[2]
    if n_q == n_k:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if n_q == 1:
        return F.scaled_dot_product_attention(q, k, v)
    mask = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril(n_k - n_q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _door_three(encoding: PositionalEncoding) -> PositionalEncoding:
    if not isinstance(encoding, PositionalEncoding):
        raise TypeError(f"encoding must be a PositionalEncoding, got {type(encoding).__name__}")
    for hook in ("add_to_input", "score_bias"):
        if getattr(type(encoding), hook) not in (
            getattr(PositionalEncoding, hook),
            getattr(NoPE, hook),
        ):
            raise TypeError(
                f"{type(encoding).__name__} works through {hook}; this model opens door 3 alone, "
                "rotate_query_key"
            )
    return encoding


def _converted(linear: nn.Linear, num_heads: int, layout: str, rotary_dim: int) -> nn.Linear:
    weight = convert_projection(linear.weight, num_heads, to=layout, rotary_dim=rotary_dim)
    new = nn.Linear(*reversed(weight.shape), bias=False, device="meta")
    new.weight = nn.Parameter(weight.detach(), requires_grad=linear.weight.requires_grad)
    return new


def _check_tokens(tokens: torch.Tensor, vocabulary: int) -> torch.Tensor:
    if not isinstance(tokens, torch.Tensor) or tokens.is_floating_point() or tokens.is_complex():
        kind = getattr(tokens, "dtype", type(tokens).__name__)
        raise TypeError(f"tokens must be a tensor of integers, got {kind}")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(
            f"tokens must be (batch, n) with batch and n >= 1, got {tuple(tokens.shape)}"
        )
    tokens = tokens.long()
    for extreme in (tokens.min(), tokens.max()):
        if not 0 <= extreme < vocabulary:
            raise IndexError(f"tokens must be 0 to {vocabulary - 1}, got {int(extreme)}")
    return tokens
