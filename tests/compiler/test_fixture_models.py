"""The fixture models are right in themselves: paging, batching, weights of transformers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from compdbg.compiler import CompilationConfig, CompilationMode, set_forward_context, use_config
from compdbg.compiler.ops.quant import quantize_static
from fixtures.models import SIZES, CausalLM, Encoder
from fixtures.models.attention import empty_cache, reference_attention
from fixtures.models.decoder import fill_randomly
from fixtures.models.huggingface import from_pretrained
from fixtures.models.metadata import metadata_of
from fixtures.models.packing import packed_weights
from fixtures.models.parallel import shard
from fixtures.models.quantized import Linear
from fixtures.serve import Server

EAGER = CompilationConfig(mode=CompilationMode.NONE)


@pytest.fixture(autouse=True)
def eager():
    with use_config(EAGER), torch.inference_mode():
        yield


def test_paged_attention_is_attention():
    """Three sequences whose blocks lie anywhere: new tokens see what is cached, and themselves in order."""
    torch.manual_seed(0)
    heads, kv_heads, head_dim = 4, 2, 8
    cache = empty_cache(16, kv_heads, head_dim, torch.float32, "cpu")
    sequences = [(0, 5, [3]), (17, 1, [7, 2]), (30, 4, [9, 1, 12])]
    stored = {}
    for row, (cached, new, blocks) in enumerate(sequences):
        k, v = torch.randn(2, cached + new, kv_heads, head_dim)
        stored[row] = k, v
        if cached:
            old = metadata_of([(0, cached, blocks)], 4)
            q = torch.zeros(cached, heads, head_dim)
            reference_attention(q, k[:cached], v[:cached], torch.empty_like(q), cache, old, 1.0)
    metadata = metadata_of(sequences, 4)
    query = torch.randn(metadata.num_tokens, heads, head_dim)
    key, value = (
        torch.cat([stored[i][j][cached:] for i, (cached, _, _) in enumerate(sequences)]) for j in (0, 1)
    )
    out = torch.empty_like(query)
    reference_attention(query, key, value, out, cache, metadata, 0.5)
    at = 0
    for row, (cached, new, _) in enumerate(sequences):
        k, v = (t.transpose(0, 1) for t in stored[row])
        mask = torch.ones(new, cached + new).tril(cached).bool()
        wanted = torch.nn.functional.scaled_dot_product_attention(
            query[at : at + new].transpose(0, 1), k, v, attn_mask=mask, scale=0.5, enable_gqa=True
        )
        torch.testing.assert_close(out[at : at + new], wanted.transpose(0, 1))
        at += new


def test_padded_metadata_gives_the_same_and_touches_nobodys_block_only():
    torch.manual_seed(0)
    query, key, value = torch.randn(8, 4, 8), torch.randn(8, 2, 8), torch.randn(8, 2, 8)
    results = []
    for padded in (False, True):
        cache = empty_cache(4, 2, 8, torch.float32, "cpu")
        metadata = metadata_of([(0, 3, [1]), (0, 2, [3])], 2)
        n = 8 if padded else 5
        metadata = metadata.pad_to(8) if padded else metadata
        out = torch.zeros(8, 4, 8)
        reference_attention(query[:n], key[:n], value[:n], out[:n], cache, metadata, 1.0)
        results.append((out[:5], cache[:, 1:]))
    torch.testing.assert_close(results[0], results[1])


def huggingface(kind, folder, **more):
    transformers = pytest.importorskip("transformers")
    shape = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 256, "head_dim": 16,
    }  # fmt: skip
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**shape, **more)
    with torch.inference_mode(False):
        theirs = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
        theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Llama", {}),
        (
            "Llama",
            {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        ),
        ("Qwen3", {"tie_word_embeddings": False}),
    ],
)
def test_a_checkpoint_of_transformers_gives_the_same_logits(kind, more, packed, tmp_path):
    theirs = huggingface(kind, tmp_path, **more)
    ours = from_pretrained(tmp_path, packed=packed)
    assert ours.config.packed == packed
    ids = torch.randint(0, 128, (23,))
    metadata = metadata_of([(0, 23, [5, 9])], 4)
    with set_forward_context(metadata):
        hidden = ours(ids, torch.arange(23))
    torch.testing.assert_close(ours.logits(hidden), theirs(ids[None]).logits[0], atol=2e-5, rtol=1e-4)


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="holds a bert"):
        from_pretrained(tmp_path)


def test_serving_together_is_serving_alone_and_what_transformers_generates(tmp_path):
    theirs = huggingface("Llama", tmp_path)
    prompts = [torch.randint(0, 128, (n,)).tolist() for n in (3, 40, 17, 1, 25)]
    together = Server(from_pretrained(tmp_path, blocks=40), blocks=40, token_budget=24, max_length=64)
    requests = [together.add(prompt, 6) for prompt in prompts]
    together.run()
    assert {(step.decoding > 0, step.prefilling > 0) for step in together.steps} == {
        (False, True),
        (True, True),
        (True, False),
    }
    for prompt, request in zip(prompts, requests, strict=True):
        alone = Server(from_pretrained(tmp_path), blocks=8, token_budget=64, max_length=64)
        single = alone.add(prompt, 6)
        alone.run()
        assert request.generated == single.generated
        generated = theirs.generate(torch.tensor([prompt]), max_new_tokens=6, do_sample=False, pad_token_id=0)
        assert request.generated == generated[0, len(prompt) :].tolist()
    assert len(together.free) == 39


def test_requests_wait_for_blocks():
    server = Server(CausalLM.random(SIZES["toy"], blocks=4), blocks=4, token_budget=16, max_length=32)
    requests = [server.add([1] * 10, 4) for _ in range(4)]
    server.run()
    assert all(len(request.generated) == 4 for request in requests)
    with pytest.raises(ValueError, match="more than 32"):
        server.add([1] * 30, 4)


@pytest.mark.parametrize("in_place", [False, True], ids=["", "turned in place"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"qk_norm": True}, {"experts": 4}, {"quant": "static_fp8"}, {"quant": "per_token_int8"}],
    ids=["llama", "qk-norm", "experts", "static FP8", "int8"],
)
def test_packed_projections_give_what_they_give_apart(changes, in_place):
    config = SIZES["toy"].with_(**changes)
    apart = CausalLM(config)
    fill_randomly(apart, seed=3)
    packed = CausalLM(config.with_(packed=True, turned_in_place=in_place))
    packed.load_state_dict(packed_weights(apart.state_dict()))
    assert len(list(packed.parameters())) == len(list(apart.parameters())) - 3 * config.layers
    found = []
    for model in (apart, packed):
        with set_forward_context(metadata_of([(0, 7, [1])], 1)):
            hidden = model.ready(blocks=2)(torch.arange(7), torch.arange(7))
        found.append((hidden, [layer.self_attn.kv_cache for layer in model.model.layers]))
    torch.testing.assert_close(*found, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("quant", ["", "static_fp8", "per_token_fp8"])
def test_each_rank_has_its_share_of_every_part_of_a_packed_projection(quant):
    config = SIZES["toy"].with_(quant=quant)
    whole = CausalLM(config)
    fill_randomly(whole, seed=3)
    for rank in range(2):
        apart, packed = CausalLM(config), CausalLM(config.with_(packed=True))
        apart.load_state_dict(whole.state_dict())
        packed.load_state_dict(packed_weights(whole.state_dict()))
        shares = [shard(model.ready(blocks=2), rank, ranks=2) for model in (apart, packed)]
        for one, other in zip(*(share.model.layers for share in shares), strict=True):
            (q, k, v, _), (qkv, _) = (
                [each for each in layer.self_attn.children() if isinstance(each, Linear)]
                for layer in (one, other)
            )
            pairs = [(qkv, (q, k, v)), (other.mlp.gate_up_proj, (one.mlp.gate_proj, one.mlp.up_proj))]
            for together, parts in pairs:
                for name in ("packed", "packed_scale") if quant else ("weight",):
                    values = [getattr(part, name).float() for part in parts]
                    shared = name == "packed_scale" and quant.startswith("static")
                    wanted = values[0] if shared else torch.cat(values)
                    torch.testing.assert_close(getattr(together, name).float(), wanted, rtol=0, atol=0)
                assert together.parts == tuple(part.parts[0] for part in parts)
            assert qkv.parts == (32, 16, 16)


@pytest.mark.parametrize("rows", ["one scale", "a scale a row", "one and a row", "several and one"])
def test_products_of_quantised_values(rows, target):
    x, weights = torch.randn(5, 32, device=target), torch.randn(3, 48, 32, device=target)
    one = torch.tensor([[0.02]], device=target)
    each = 0.01 + torch.rand(3, 48, 1, device=target) / 50
    x_scale, scales = {
        "one scale": (one[0, 0], [one] * 3),
        "a scale a row": (0.02 + torch.rand(5, 1, device=target) / 50, list(each)),
        "one and a row": (one[0, 0], list(each)),
        "several and one": (one[0, 0], list(each[:, :1, 0].unsqueeze(-1))),
    }[rows]
    values = quantize_static(x, x_scale, torch.float8_e4m3fn)
    packed = [quantize_static(w, s, torch.float8_e4m3fn) for w, s in zip(weights, scales, strict=True)]
    wanted = [
        (values.double() * x_scale.double()) @ (weight.double() * scale.double()).t()
        for weight, scale in zip(packed, scales, strict=True)
    ]
    given = (0, torch.bfloat16)
    found = [
        torch.ops.fixtures.scaled_mm(values, weight, x_scale, scale, *given)
        for weight, scale in zip(packed, scales, strict=True)
    ]
    merged = torch.ops.fixtures.merged_scaled_mm(values, packed, x_scale, scales, *given)
    for product in (torch.cat(found, -1), merged):
        assert product.dtype is torch.bfloat16
        distance = (product.double() - torch.cat(wanted, -1)).norm() / torch.cat(wanted, -1).norm()
        assert distance < 4e-3


@pytest.mark.parametrize("changes", [{"qk_norm": True}, {"experts": 4}], ids=["qk-norm", "experts"])
def test_other_decoders_run(changes):
    model = CausalLM.random(SIZES["toy"].with_(**changes))
    with set_forward_context(metadata_of([(0, 7, [1])], 1)):
        hidden = model(torch.arange(7), torch.arange(7))
    assert hidden.shape == (7, 64)
    assert 0.1 < hidden.std() < 10


def test_the_encoder_ignores_padding_tokens():
    model = Encoder.random(SIZES["toy"])
    ids = torch.randint(0, 512, (3, 12))
    mask = torch.arange(12) < torch.tensor([[12], [5], [9]])
    wanted = model(ids[1:2, :5], mask[1:2, :5])["pooled"]
    torch.testing.assert_close(model(ids, mask)["pooled"][1:2], wanted, atol=1e-5, rtol=1e-5)


def test_sizes_are_what_they_are_called():
    with torch.device("meta"):
        big, half = CausalLM(SIZES["1.2b"]), CausalLM(SIZES["700m"])
    assert sum(p.numel() for p in big.parameters()) == pytest.approx(1.24e9, rel=0.01)
    assert sum(p.numel() for p in half.model.layers.parameters()) == pytest.approx(0.72e9, rel=0.01)


@pytest.mark.slow
def test_the_kernels_agree_with_the_reference_in_tritons_interpreter():
    pytest.importorskip("triton")
    program = """
        import torch
        from fixtures.models.attention import empty_cache, reference_attention
        from fixtures.models.attention_kernels import triton_attention
        from fixtures.models.metadata import metadata_of
        torch.manual_seed(0)
        for heads, kv_heads, head_dim in ((4, 2, 16), (8, 1, 32), (16, 4, 128)):
            mixed = metadata_of([(0, 3, [2]), (70, 1, [3, 4, 5, 6, 7]), (15, 2, [1, 9])], 6)
            ones = [(0, 1, [2]), (70, 1, [3, 4, 5, 6, 7]), (15, 1, [1]), (16, 1, [9, 8])]
            decode = metadata_of(ones, 6, uniform_decode=True)
            query = torch.randn(8, heads, head_dim)
            key, value = torch.randn(2, 8, kv_heads, head_dim)
            for metadata in (mixed, decode):
                n = metadata.num_tokens
                results = []
                for use in (reference_attention, triton_attention):
                    torch.manual_seed(1)
                    cache = torch.randn_like(empty_cache(10, kv_heads, head_dim, torch.float32, "cpu"))
                    out = torch.zeros_like(query)
                    use(query, key, value, out, cache, metadata.pad_to(8), head_dim**-0.5)
                    results.append((out[:n], cache))
                torch.testing.assert_close(results[0], results[1])
    """
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={"TRITON_INTERPRET": "1", "PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(root)},
        check=True,
        timeout=300,
    )
