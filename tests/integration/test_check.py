"""`compdbg check` and `compdbg diff` on programs that are compiled: the gate that keeps a fusion alive."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from compdbg.cli.main import main  # noqa: E402
from tests.integration.fusion_programs import W, X, a_pass, compiled_with, ops  # noqa: E402

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]

EXPECT = """
[fusion.RMSRound]
matched = 2
[compile]
graph_breaks = 0
max_recompiles = 0
[findings]
deny = ["fusion-missed"]
"""


def layers(x: Tensor, w: Tensor) -> Tensor:
    x = ops.rms(x, w, 1e-5).round()
    return ops.rms(x, w, 1e-5).round()


def recorded(record_here: Recorder, eps: float) -> Path:
    """The program, compiled with a pass whose pattern has this epsilon."""
    torch._dynamo.reset()
    with record_here() as run:
        fusion = a_pass(lambda x, w: ops.rms(x, w, eps).round(), [X, W], "RMSRound")
        compiled_with(layers, X, W, passes=[fusion.apply])
    return run.path


@pytest.fixture
def expect(tmp_path: Path) -> str:
    path = tmp_path / "expect.toml"
    path.write_text(EXPECT)
    return str(path)


class TestEpsilon:
    def test_changed_fails_with_the_near_miss_and_put_back_passes(
        self, record_here: Recorder, expect: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["check", str(recorded(record_here, 1e-5)), "--expect", expect]) == 0
        assert capsys.readouterr().out.startswith("All 4 expectations from expect.toml hold")
        assert main(["check", str(recorded(record_here, 1e-6)), "--expect", expect]) == 1
        told = capsys.readouterr().out
        assert told.startswith("2 failed of 4 expectations from expect.toml")
        assert "fusion.RMSRound.matched: wanted 2, found 0. 2 sites left: arg-mismatch: " in told
        assert "wanted eps=1e-06 of fusion_tests.rms.default, found eps=1e-05" in told
        assert main(["check", str(recorded(record_here, 1e-5)), "--expect", expect]) == 0

    def test_against_the_run_before(self, record_here: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
        good, bad = (str(recorded(record_here, eps)) for eps in (1e-5, 1e-6))
        assert main(["check", good, "--baseline", good]) == 0
        assert main(["check", bad, "--baseline", good, "--json"]) == 1
        items = json.loads(capsys.readouterr().out.splitlines()[-1])["items"]
        failed = {i["expectation"]: (i["wanted"], i["found"]) for i in items if i["status"] == "fail"}
        assert failed["fusion.RMSRound.matched"] == ("at least 2", 0)
        assert failed["findings.new"][1].startswith("fusion-missed ")
        assert main(["check", good, "--baseline", bad]) == 0

    def test_the_difference_is_the_pattern_that_stopped(
        self, record_here: Recorder, capsys: pytest.CaptureFixture[str]
    ) -> None:
        good, bad = (str(recorded(record_here, eps)) for eps in (1e-5, 1e-6))
        assert main(["diff", good, bad, "--json", "--exit-code"]) == 1
        items = json.loads(capsys.readouterr().out)["items"]
        assert set(items[0]) == {"view", "key", "change", "a", "b"}
        (fusion,) = [i for i in items if i["view"] == "fusion"]
        assert fusion["change"] == "changed"
        assert fusion["a"] == "fired at 2"
        assert fusion["b"].startswith("missed 2: arg-mismatch: wanted eps=1e-06")
        assert main(["diff", good, good, "--exit-code"]) == 0


class TestCaches:
    @pytest.fixture
    def inductor(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Recorder], Path]:
        """Compiles one program by Inductor, cold at first and then from its cache on disk."""
        from torch._inductor import config
        from torch._inductor.custom_graph_pass import CustomGraphPass

        fusion = a_pass(lambda x, w: ops.rms(x, w, 1e-5).round(), [X, W], "RMSRound")

        class Pass(CustomGraphPass):
            def __call__(self, graph: Any) -> None:
                fusion.apply(graph)

            def uuid(self) -> str:
                return "one"

        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "keys"))

        def compiled(record_here: Recorder) -> Path:
            torch._dynamo.reset()
            with record_here() as run, config.patch(post_grad_custom_post_pass=Pass()):
                torch.compile(layers, fullgraph=True)(X, W)
            return run.path

        return compiled

    def test_warm_both_times_there_is_no_difference_and_the_count_is_known(
        self,
        record_here: Recorder,
        inductor: Callable[[Recorder], Path],
        expect: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        cold, warm, again = (str(inductor(record_here)) for _ in range(3))
        assert main(["diff", warm, again, "--exit-code"]) == 0
        assert capsys.readouterr().out.startswith("No difference between ")
        assert main(["diff", cold, warm, "--json", "--exit-code"]) == 1
        items = json.loads(capsys.readouterr().out)["items"]
        assert {i["view"] for i in items} <= {"cache", "time"}
        assert [main(["check", run, "--expect", expect]) for run in (cold, warm)] == [0, 0]

        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-keys"))
        unknown = str(inductor(record_here))
        capsys.readouterr()
        assert main(["check", unknown, "--expect", expect, "--json"]) == 1
        first = json.loads(capsys.readouterr().out)["items"][0]
        assert (first["status"], first["found"]) == ("not-observed", None)


class TestUsage:
    @pytest.mark.parametrize(
        ("content", "code", "says"),
        [
            (None, 3, "No such file"),
            ("[fusion", 3, "is no TOML"),
            ("[fusion.X]\nmatchd = 1", 2, "did you mean matched?"),
        ],
    )
    def test_a_file_that_is_none(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, code: int, says: str
    ) -> None:
        path = tmp_path / "e.toml"
        if content is not None:
            path.write_text(content)
        assert main(["check", "--expect", str(path), "--json"]) == code
        told = capsys.readouterr()
        assert says in told.err
        assert told.err.count("\n") == 1
        assert says in json.loads(told.out)["error"]["message"]

    def test_nothing_to_check_against(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check"]) == 2
        assert "--expect FILE.toml or --baseline RUN" in capsys.readouterr().err

    def test_no_such_run(self, expect: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check", "nowhere/at-all", "--expect", expect]) == 3
        assert main(["diff", "nowhere/at-all", "nowhere/@1"]) == 3
        assert capsys.readouterr().err.count("compdbg: error: no run at nowhere/at-all; runs are") == 2
