"""What identifies people is not in a report, neither in what is seen nor in the run that it carries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compdbg.cli.main import main
from compdbg.events import CacheProblem, CompileError, Graph, TorchLoaded, Where
from compdbg.report.contents import contents
from compdbg.report.markdown import markdown
from compdbg.report.page.document import document
from compdbg.store.embedded import read_report
from compdbg.store.locate import open_run
from compdbg.store.redact import Redactor
from tests.report.runs import Told

SECRETS = ("marigold", "gpu-box-7", "/home/", "/scratch/cache-of-team", "hunter2")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A program in a home folder that failed, on a named host, with an environment."""
    told = Told(
        tmp_path / "run",
        ["/home/marigold/work/serve.py", "--data", "/data/users/marigold/x"],
        cwd="/home/marigold/work",
        env={
            "TORCHINDUCTOR_CACHE_DIR": "/scratch/cache-of-team/ind",
            "TORCH_LOGS": "hunter2",
            "OMP_NUM_THREADS": "1",
        },
    )
    told.tell(TorchLoaded(torch="2.13.0"))
    where = Where("/home/marigold/work/serve.py", 3, "step")
    told.tell(
        CompileError(
            frame="/home/marigold/work/serve.py:1:step", compile_id="0/0", stage="backend", where=where,
            error="BackendCompilerFailed", message="on gpu-box-7: no /home/marigold/work/k.so for marigold",
            root_error="OSError", root_message="no /home/marigold/work/k.so on gpu-box-7.example.org",
        )
    )  # fmt: skip
    told.tell(CacheProblem(layer="fx", reason="permission denied", path="/scratch/cache-of-team/ind/fx"))
    told.tell(
        Graph(
            graph="0/0", stage="dynamo", text=told.text("# /home/marigold/work/serve.py:3 in step\nreturn x")
        )
    )
    return told.end(1)


def everything(page: str, folder: Path) -> str:
    """A report's text, with the run that is compressed in it."""
    file = folder / "bug.html"
    file.write_text(page)
    log = read_report(file)
    told = [str(record) for record in log.records]
    return "\n".join([page, *told, *(log.texts or {}).values(), json.dumps(log.manifest), str(log.sources)])


def test_nothing_of_it_is_left(run: Path, tmp_path: Path) -> None:
    made = contents(open_run(f"{run}/"))
    text = everything(document(made), tmp_path)
    assert [secret for secret in SECRETS if secret in text] == []
    assert "~/work/k.so" in text
    assert "&lt;$TORCHINDUCTOR_CACHE_DIR&gt;/fx" in text


def test_what_was_replaced_is_told(run: Path) -> None:
    made = contents(open_run(f"{run}/"))
    kinds = [line.partition(" × ")[2] for line in made.redactions or []]
    assert kinds == [
        "host names (<host>)",
        "paths below a home folder (~)",
        "user names (<user>)",
        "values of environment variables (<hidden>)",
    ]
    assert "paths below a home folder (~)" in document(made)


def test_a_flag_in_the_environment_tells_nothing_of_anybody(run: Path, tmp_path: Path) -> None:
    made = contents(open_run(f"{run}/"))
    (start,) = [r.event for r in made.carried.records if r.event.kind == "process-start"]
    assert start.env == {
        "TORCHINDUCTOR_CACHE_DIR": "<hidden>", "TORCH_LOGS": "<hidden>", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def test_findings_are_those_of_the_run(run: Path) -> None:
    whole, hidden = contents(open_run(f"{run}/"), redact=False), contents(open_run(f"{run}/"))
    assert [f.fingerprint for f in hidden.source.findings] == [f.fingerprint for f in whole.source.findings]
    assert {f.code for f in whole.source.findings} >= {"compile-failed"}


def test_markdown_is_redacted_too(run: Path) -> None:
    text = markdown(contents(open_run(f"{run}/")))
    assert [secret for secret in SECRETS if secret in text] == []
    assert "Redacted: " in text


def test_no_redact_leaves_it(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "all.html"
    assert main(["report", f"{run}/", "-o", str(file), "--no-redact"]) == 0
    text = everything(file.read_text(), tmp_path)
    assert [secret for secret in SECRETS if secret not in text] == []
    assert "Nothing was redacted" in file.read_text()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/marigold", "~"),
        ("File \"/home/marigold/a b/m.py\", line 3", 'File "~/a b/m.py", line 3'),
        ("/Users/marigold/x:/root/y", "~/x:~/y"),
        (r"C:\\Users\\marigold\\x", r"~\\x"),
        ("/mnt/users/marigold/x", "~/x"),
        ("root_error at /rooted/x", "root_error at /rooted/x"),
        ("marigold_model marigold@gpu-box-7", "marigold_model <user>@<host>"),
        ("/usr/lib/python3/site-packages/torch", "/usr/lib/python3/site-packages/torch"),
    ],
)  # fmt: skip
def test_words(text: str, shown: str) -> None:
    assert Redactor(["marigold", "root", "me"], ["gpu-box-7"], {})(text) == shown


class TestLinesOfFiles:
    def failed_at(self, tmp_path: Path, file: Path, **options: object) -> str:
        told = Told(tmp_path / "run", ["serve.py"])
        told.manifest.fields["options"] = options
        where = Where(str(file), 2, "step")
        told.tell(
            CompileError(
                frame=f"{file}:1:step", compile_id="0/0", stage="backend", error="E", message="m",
                root_error="E", root_message="m", where=where,
            )
        )  # fmt: skip
        return document(contents(open_run(f"{told.end(1)}/")))

    def test_those_around_a_finding_are_shown(self, tmp_path: Path) -> None:
        file = tmp_path / "serve.py"
        file.write_text("def step(x):\n    return secret_recipe(x)\n")
        assert "return secret_recipe(x)" in self.failed_at(tmp_path, file)

    def test_not_where_source_was_not_to_be_recorded(self, tmp_path: Path) -> None:
        file = tmp_path / "serve.py"
        file.write_text("def step(x):\n    return secret_recipe(x)\n")
        assert "secret_recipe" not in self.failed_at(tmp_path, file, source=False)

    def test_not_of_a_file_that_is_no_program(self, tmp_path: Path) -> None:
        file = tmp_path / "passwords"
        file.write_text("root:x\nadmin:open sesame\n")
        assert "open sesame" not in self.failed_at(tmp_path, file)
