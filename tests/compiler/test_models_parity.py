"""Every fixture model computes what its eager forward computes: each batch size, mode and kind of batch."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler import CompilationConfig, use_config
from compdbg.events import AddressChanged, Capture, PaddingLeak, StaleInput
from fixtures.models import SIZES, CausalLM
from fixtures.serve import Server
from tests.compiler.parity import (
    BLOCKS,
    KINDS,
    MODES,
    SHAPES,
    agree,
    decoder,
    encoder,
    encodings_agree,
    settings,
    warm,
)
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("llama", mode) for mode in MODES] + [(kind, "FULL_AND_PIECEWISE") for kind in KINDS if kind != "llama"],
)
def test_decoders_over_batch_sizes(kind, mode, target):
    with Heard() as heard, torch.inference_mode():
        model = decoder(kind, settings(mode), target)
        warm(model)
        agree(model, (1, 2, 3, 7, 8, 9, 31, 64, 100, 127, 128, 130), target)
    assert not [event for event in heard.events if isinstance(event, (AddressChanged, StaleInput))]
    assert all(capture.error is None for capture in heard.of(Capture))


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_kinds_of_dynamic_shapes(shapes, mode, target):
    with torch.inference_mode():
        model = decoder("llama", settings(mode, shapes=shapes), target)
        agree(model, (5, 5, 5, 1, 1, 1, 2, 3, 8, 130), target)


@pytest.fixture(scope="module")
def compiled_before(tmp_path_factory):
    """One cache for the whole matrix: modes differ in what is captured, not in what is compiled."""
    return tmp_path_factory.mktemp("compiled_before")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("kind", [*KINDS, "encoder"])
def test_every_model_at_every_size(kind, backend, shapes, mode, target, compiled_before, monkeypatch):
    if (kind, shapes) == ("encoder", "unbacked") and torch.__version__ < "2.12":
        pytest.skip("this torch's scaled_dot_product_attention asks whether an unbacked size is 1")
    monkeypatch.setenv("COMPDBG_CACHE_DIR", str(compiled_before))
    with Heard() as heard, torch.inference_mode():
        if kind == "encoder":
            config = settings(mode, backend, shapes, splitting_ops=())
            encodings_agree(encoder(config, target), range(1, 131), target)
        else:
            model = decoder(kind, settings(mode, backend, shapes), target)
            warm(model)
            agree(model, range(1, 131), target)
    assert not [event for event in heard.events if isinstance(event, (AddressChanged, StaleInput))]
    assert all(capture.error is None for capture in heard.of(Capture))


def test_decoders_by_inductor(target):
    with torch.inference_mode():
        model = decoder("llama", settings("PIECEWISE", "inductor"), target)
        warm(model)
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
        warm(model)
        agree(model, (3, 5, 100), target, caches=False)
    assert not heard.of(PaddingLeak)


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_the_encoder_over_batch_sizes(mode, target):
    with torch.inference_mode():
        encodings_agree(encoder(settings(mode, splitting_ops=()), target), (1, 2, 3, 5, 7, 8, 9, 130), target)
