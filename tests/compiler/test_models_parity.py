"""Every fixture model computes what its eager forward computes: each batch size, mode and kind of batch."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler import CompilationConfig, CUDAGraphMode, set_forward_context, use_config, warm_up
from compdbg.events import AddressChanged, Capture, PaddingLeak, StaleInput
from fixtures.models import SIZES, CausalLM, Encoder
from fixtures.models.attention import OPERATOR
from fixtures.models.metadata import metadata_of
from fixtures.serve import Server, warm_up_server
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]

MODES = [mode.name for mode in CUDAGraphMode]
SHAPES = ("backed", "backed_size_oblivious", "unbacked")
KINDS = {"llama": {}, "qwen3": {"qk_norm": True}, "experts": {"experts": 4}}
CAPTURED = [1, 2, 4, 8, 16, 32, 64, 128]
BLOCKS = 300


def settings(mode="PIECEWISE", backend="eager", shapes="backed", **more):
    return CompilationConfig(
        backend=backend,
        splitting_ops=[OPERATOR],
        cudagraph_mode=mode,
        cudagraph_capture_sizes=CAPTURED,
        dynamic_shapes_config={"type": shapes},
        **more,
    )


def close(found, wanted, target):
    """Equal but for rounding; in bf16 as a whole, since single elements may round apart."""
    if target == "cpu":
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)
        return
    assert found.shape == wanted.shape
    distance = (found.double() - wanted.double()).norm() / wanted.double().norm().clamp(min=1e-9)
    assert distance < 2e-2


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
                results.append((hidden, [layer.kv_cache[:, 1:].clone() for layer in layers]))
            close(results[0][0], results[1][0], target)
            if caches:
                for found, wanted in zip(results[0][1], results[1][1], strict=True):
                    close(found, wanted, target)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        pytest.param(
            kind, mode, marks=() if kind == "llama" or mode == "FULL_AND_PIECEWISE" else pytest.mark.slow
        )
        for kind in KINDS
        for mode in MODES
    ],
)
def test_decoders_over_batch_sizes(kind, mode, target):
    with Heard() as heard, torch.inference_mode():
        model = decoder(kind, settings(mode), target)
        server = Server(model, blocks=BLOCKS, max_length=32)
        warm_up_server(server)
        agree(model, (1, 2, 3, 7, 8, 9, 31, 64, 100, 127, 128, 130), target)
    assert not [event for event in heard.events if isinstance(event, (AddressChanged, StaleInput))]
    assert all(capture.error is None for capture in heard.of(Capture))


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_kinds_of_dynamic_shapes(shapes, mode, target):
    with torch.inference_mode():
        model = decoder("llama", settings(mode, shapes=shapes), target)
        agree(model, (5, 5, 5, 1, 1, 1, 2, 3, 8, 130), target)


@pytest.mark.slow
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_decoders_by_inductor_at_every_size(kind, shapes, target):
    with torch.inference_mode():
        model = decoder(kind, settings("FULL_AND_PIECEWISE", "inductor", shapes), target)
        warm_up_server(Server(model, blocks=BLOCKS, max_length=32))
        agree(model, range(1, 131), target)


def test_decoders_by_inductor(target):
    with torch.inference_mode():
        model = decoder("llama", settings("PIECEWISE", "inductor"), target)
        warm_up_server(Server(model, blocks=BLOCKS, max_length=32))
        agree(model, (1, 2, 3, 8, 9, 64, 127, 130), target)


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL", "FULL_AND_PIECEWISE"])
def test_a_served_model_says_what_the_eager_one_says(mode, target):
    prompts = [torch.randint(0, 512, (n,)).tolist() for n in (3, 40, 17, 1, 25)]
    answers = []
    with torch.inference_mode():
        for config in (settings(mode), CompilationConfig(mode=0)):
            with use_config(config):
                model = CausalLM.random(SIZES["toy"], blocks=BLOCKS, device=target)
            server = Server(model, blocks=BLOCKS, token_budget=24, max_length=64)
            requests = [server.add(prompt, 5) for prompt in prompts]
            server.run()
            answers.append([request.generated for request in requests])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_padding_leaks_nowhere(mode, target, monkeypatch):
    monkeypatch.setenv("COMPDBG_CHECK_PADDING", "1")
    with Heard() as heard, torch.inference_mode():
        model = decoder("llama", settings(mode), target)
        warm_up_server(Server(model, blocks=BLOCKS, max_length=32))
        agree(model, (3, 5, 100), target, caches=False)
    assert not heard.of(PaddingLeak)


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_the_encoder_over_batch_sizes(mode, backend, target):
    config = CompilationConfig(backend=backend, cudagraph_mode=mode, cudagraph_capture_sizes=[1, 2, 4, 8])
    with use_config(config), torch.inference_mode():
        model = Encoder.random(SIZES["toy"], device=target)

        def inputs(n):
            lengths = 1 + torch.arange(n, device=target)[:, None] * 5 % 12
            ids = torch.randint(0, 512, (n, 12), device=target)
            return ids, torch.arange(12, device=target) < lengths

        warm_up(model, inputs)
        for n in (1, 2, 3, 5, 7, 8, 9):
            given = inputs(n)
            found, wanted = model(*given), model.forward_eager(*given)
            assert found["pooled"].shape == (n, 64)
            torch.testing.assert_close(found, wanted, atol=2e-5 if target == "cpu" else 1e-4, rtol=1e-4)
