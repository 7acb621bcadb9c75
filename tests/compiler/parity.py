"""Compiled fixture models beside their undecorated forwards: batches, settings and the comparison."""

from __future__ import annotations

import torch

from compdbg.compiler import CompilationConfig, CUDAGraphMode, set_forward_context, use_config, warm_up
from fixtures.models import SIZES, CausalLM, Encoder
from fixtures.models.attention import OPERATOR
from fixtures.models.metadata import metadata_of
from fixtures.serve import Server, warm_up_server

MODES = [mode.name for mode in CUDAGraphMode]
SHAPES = ("backed", "backed_size_oblivious", "unbacked")
KINDS = {"llama": {}, "packed": {"packed": True}, "qwen3": {"qk_norm": True}, "experts": {"experts": 4}}
CAPTURED = [1, 2, 4, 8, 16, 32, 64, 128]
BLOCKS = 300


def settings(mode="PIECEWISE", backend="eager", shapes="backed", splitting_ops=(OPERATOR,), **more):
    return CompilationConfig(
        backend=backend,
        splitting_ops=list(splitting_ops),
        cudagraph_mode=mode,
        cudagraph_capture_sizes=CAPTURED,
        dynamic_shapes_config={"type": shapes},
        **more,
    )


def close(found, wanted, target, limit=2e-2):
    """Equal but for rounding; in bf16 as a whole, since single elements may round apart."""
    if target == "cpu":
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)
        return
    assert found.shape == wanted.shape
    distance = (found.double() - wanted.double()).norm() / wanted.double().norm().clamp(min=1e-9)
    assert distance < limit, f"{distance:.4f} apart, of at most {limit}"


def decoder(kind, config, target):
    dtype = torch.bfloat16 if target == "cuda" else torch.float32
    with use_config(config):
        return CausalLM.random(SIZES["toy"].with_(**KINDS[kind]), blocks=BLOCKS, device=target, dtype=dtype)


def batches(n, target):
    """Decode: n sequences of different lengths; mixed: one with half of the rows, the rest decoding."""
    cached = [(7 * i) % 30 for i in range(n)]
    decode = [(length, 1, [1 + i, 150 + i]) for i, length in enumerate(cached)]
    prompt = min(max(n // 2, 1), 32)
    mixed = [(0, prompt, [140, 141]), *decode[: n - prompt]]
    for sequences, uniform in ((decode, True), (mixed, n == 1)):
        metadata = metadata_of(sequences, 2, target, uniform_decode=uniform)
        positions = torch.cat([torch.arange(c, c + new, device=target) for c, new, _ in sequences])
        yield metadata, positions, uniform


def agree(model, sizes, target, caches=True):
    """Compare with the undecorated forward, the caches of all layers as well."""
    layers = [layer.self_attn for layer in model.model.layers]
    routed = target == "cuda" and any(hasattr(layer.mlp, "router") for layer in model.model.layers)
    elsewhere = sequences = 0
    for n in sizes:
        for metadata, positions, uniform in batches(n, target):
            ids = torch.randint(0, 512, (n,), device=target)
            before = [layer.kv_cache.clone() for layer in layers]
            results = []
            for forward in (model.model, model.model.forward_eager):
                for layer, cache in zip(layers, before, strict=True):
                    layer.kv_cache.copy_(cache)
                with set_forward_context(metadata, uniform_decode=uniform):
                    hidden = forward(ids, positions)
                assert hidden.shape[0] == n
                results.append((hidden, [layer.kv_cache.clone() for layer in layers]))
            (hidden, found), (wanted_hidden, wanted) = results
            other = routed_elsewhere(hidden, wanted_hidden, metadata) if routed else ids < 0
            elsewhere += len(metadata.sequence[:n][other].unique())
            sequences += len(metadata.sequence[:n].unique())
            close(hidden[~other], wanted_hidden[~other], target, 4e-2 if routed else 2e-2)
            for one, two in zip(found, wanted, strict=True) if caches else ():
                for cache in (one, two):
                    cache.flatten(1, 2)[:, metadata.slots[other]] = 0
                close(one[:, 1:], two[:, 1:], target)
    assert elsewhere <= 2 + 0.03 * sequences


def routed_elsewhere(found, wanted, metadata):
    """Rows of sequences in which rounding to bf16 has chosen another expert: few, but far apart.

    Experts whose odds are nearly equal change places by a rounding, which compiled code leaves out.
    """
    apart = (found.double() - wanted.double()).norm(dim=-1) / wanted.double().norm(dim=-1)
    sequence = metadata.sequence[: len(found)]
    other = torch.isin(sequence, sequence[apart > 6e-2])
    assert len(sequence[other].unique()) <= 2 + len(sequence.unique()) // 10
    return other


def warm(model):
    """Compile and capture all sizes of a decoder, with metadata of the form that is served."""
    warm_up_server(Server(model, blocks=BLOCKS, max_length=32))


def encoder(config, target):
    dtype = torch.bfloat16 if target == "cuda" else torch.float32
    with use_config(config):
        return Encoder.random(SIZES["toy"], device=target, dtype=dtype)


def sequences(n, target):
    """What an encoder takes: n sequences of different lengths."""
    lengths = 1 + torch.arange(n, device=target)[:, None] * 5 % 12
    ids = torch.randint(0, 512, (n, 12), device=target)
    return ids, torch.arange(12, device=target) < lengths


def encodings_agree(model, sizes, target):
    """The same for an encoder, after its captures."""
    warm_up(model, lambda n: sequences(n, target))
    for n in sizes:
        given = sequences(n, target)
        found, wanted = model(*given), model.forward_eager(*given)
        assert found["pooled"].shape == (n, 64)
        for name, value in wanted.items():
            close(found[name], value, target)
