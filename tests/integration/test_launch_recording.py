"""What a run folder holds afterwards: a log a process, their ends, whatever way they were started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import compdbg
from compdbg.events import ProcessEnd, ProcessMissed, ProcessStart
from compdbg.findings.collect import find_all
from compdbg.model.run import Run, load
from tests.integration.launching import clean_environment, go, recording, write

PACKAGE = Path(compdbg.__file__).parent
START_FILE = PACKAGE / "launch" / "compdbg.pth"


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Run]:
    """Records a program given as text; the run."""

    def run(text: str, *words: str, options: tuple[str, ...] = (), status: int = 0) -> Run:
        write(tmp_path, {"program.py": text})
        went = go(recording(tmp_path / "run", *options, *(words or ("program.py",))), tmp_path)
        assert went.status == status, went.stderr
        return load(tmp_path / "run")

    return run


def hows(run: Run) -> list[str]:
    return [event.how for _, event in run.log.of(ProcessStart)]


def parents(run: Run) -> dict[int, int]:
    return {event.pid: event.ppid for _, event in run.log.of(ProcessStart)}


class TestProcesses:
    """Every process writes a file of its own, named after host, pid and rank."""

    def test_one_program_is_one_process(self, record: Callable[..., Run]) -> None:
        run = record("print(1)")
        ((header, start),) = run.log.of(ProcessStart)
        assert start.how == "run"
        assert start.argv[1:] == ["program.py"]
        assert start.cwd == str(run.log.folder.parent)
        assert (run.log.folder / f"{os.uname().nodename}-{header.process}.jsonl").is_file()
        assert run.summary.argv == ["program.py"]
        assert run.summary.torch is None

    @pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
    def test_workers_of_multiprocessing(self, method: str, record: Callable[..., Run]) -> None:
        run = record(
            f"""
            import multiprocessing

            def work():
                pass

            if __name__ == "__main__":
                workers = [multiprocessing.get_context({method!r}).Process(target=work) for _ in range(2)]
                for worker in workers: worker.start()
                for worker in workers: worker.join()
            """
        )
        workers = 3 if method == "forkserver" else 2  # the server is a process too
        assert len(hows(run)) == 1 + workers
        assert hows(run).count("fork") == (0 if method == "spawn" else 2)
        assert len(list(run.log.folder.glob("*.jsonl"))) == 1 + workers + 1  # and the command's own
        assert not find_all(run)

    def test_fork_and_its_own_forks(self, record: Callable[..., Run]) -> None:
        run = record(
            """
            import os, sys
            if os.fork() == 0:
                if os.fork() == 0:
                    sys.exit()
                os.wait()
                os._exit(0)
            os.wait()
            """
        )
        assert hows(run) == ["run", "fork", "fork"]
        first, child, grandchild = (event.pid for _, event in run.log.of(ProcessStart))
        assert parents(run) | {first: 0} == {first: 0, child: first, grandchild: child}
        ended = {header.process.split("-")[0] for header, _ in run.log.of(ProcessEnd)}
        assert ended == {str(first), str(grandchild)}, "os._exit leaves no last word, and is no fault"
        assert not find_all(run)

    def test_subprocess_and_what_it_starts(self, record: Callable[..., Run]) -> None:
        inner = "import subprocess, sys; subprocess.run([sys.executable, '-Ic', ''])"
        run = record(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])")
        assert hows(run) == ["run"] * 3
        assert not find_all(run)

    def test_a_fork_that_becomes_another_program_is_one_process(self, record: Callable[..., Run]) -> None:
        run = record("import os, subprocess; subprocess.run(['true'], preexec_fn=lambda: os.setpgrp())")
        assert hows(run) == ["run"]
        assert not find_all(run)

    def test_exec_continues_in_a_file_of_its_own(self, record: Callable[..., Run]) -> None:
        run = record(
            "import os, sys; len(sys.argv) > 1 or os.execv(sys.executable, [*sys.orig_argv, 'again'])"
        )
        (_, first), (_, second) = run.log.of(ProcessStart)
        assert first.pid == second.pid
        assert second.argv[-1] == "again"

    def test_processes_that_cannot_be_seen_are_named(self, record: Callable[..., Run]) -> None:
        run = record(
            """
            import os, subprocess, sys
            subprocess.run([sys.executable, "-c", ""], env={"HOME": "/"})
            subprocess.run([sys.executable, "-S", "-c", ""])
            subprocess.run(["true"], env={})
            subprocess.run([sys.executable, "-c", ""], env={**os.environ, "MORE": "1"})
            """
        )
        missed = [event for _, event in run.log.of(ProcessMissed)]
        assert [m.reason for m in missed] == [
            "its environment was replaced by one without COMPDBG_RUN",
            "python -S starts nothing",
        ]
        (finding,) = find_all(run)
        assert (finding.code, finding.severity) == ("recorder-degraded", "warning")
        assert finding.title.startswith("2 processes were not recorded")
        assert finding.data == {"kind": "processes", "count": 2}

    def test_a_command_without_python_is_named(self, record: Callable[..., Run]) -> None:
        run = record("", "--", "true")
        (finding,) = find_all(run)
        assert finding.code == "recorder-degraded"
        assert finding.title == "1 process was not recorded: true"

    def test_a_command_and_the_python_in_it(self, record: Callable[..., Run]) -> None:
        run = record(
            "print(1)", "--", "sh", "-c", f"{sys.executable} program.py; {sys.executable} program.py"
        )
        assert hows(run) == ["run", "run"]
        assert not find_all(run)

    def test_ranks_are_told_by_their_environment(self, record: Callable[..., Run]) -> None:
        run = record(
            """
            import os, subprocess, sys
            for rank in "01":
                env = {**os.environ, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
                subprocess.run([sys.executable, "-c", ""], env=env)
            """
        )
        assert run.summary.ranks == [0, 1]
        assert sorted(p.name.rpartition("-")[2] for p in run.log.folder.glob("*-rank?.jsonl")) == [
            "rank0.jsonl",
            "rank1.jsonl",
        ]
        assert {(e.world_size, e.local_rank) for _, e in run.log.of(ProcessStart)} == {
            (None, None),
            (2, 0),
            (2, 1),
        }


class TestEnds:
    """The process's own last word where it could say one; the command's word on the program always."""

    def test_an_uncaught_exception(self, record: Callable[..., Run]) -> None:
        run = record("def f():\n    raise ValueError('no good')\n\nf()\n", status=1)
        ((_, end),) = run.log.of(ProcessEnd)
        assert (end.uncaught, end.message) == ("ValueError", "no good")
        assert end.where is not None
        assert (end.where.line, end.where.function) == (2, "f")
        assert run.summary.exit_status == 1

    def test_the_users_line_of_an_exception_that_a_library_raised(self, record: Callable[..., Run]) -> None:
        run = record("import json\n\njson.loads('no json')\n", status=1)
        assert run.summary.uncaught is not None
        assert run.summary.uncaught.error == "JSONDecodeError"
        assert run.summary.uncaught.where is not None
        assert run.summary.uncaught.where.line == 3

    def test_the_line_that_python_could_not_parse(self, record: Callable[..., Run]) -> None:
        run = record("x = 1\ny = = 2\n", status=1)
        assert run.summary.uncaught is not None
        assert run.summary.uncaught.error == "SyntaxError"
        assert run.summary.uncaught.where is not None
        assert run.summary.uncaught.where.line == 2

    def test_an_exception_that_a_test_runner_caught_did_not_end_the_program(
        self, record: Callable[..., Run]
    ) -> None:
        run = record(
            """
            import sys
            def runner():
                try: 1 / 0
                except Exception as error: sys.last_value = error
            runner()
            """
        )
        ((_, end),) = run.log.of(ProcessEnd)
        assert end.uncaught is None

    @pytest.mark.parametrize("end", ["os._exit(9)", "os.kill(os.getpid(), 9)", "ctypes.string_at(0)"])
    def test_sudden_ends_leave_a_log_and_the_commands_word(
        self, end: str, record: Callable[..., Run]
    ) -> None:
        status = {"os._exit(9)": 9, "os.kill(os.getpid(), 9)": -9, "ctypes.string_at(0)": -11}[end]
        run = record(f"import ctypes, os; {end}", status=status)
        assert hows(run) == ["run"]
        assert not run.log.of(ProcessEnd)
        assert run.summary.complete
        assert (run.summary.exit_status, run.summary.signal) == ((9, None) if status > 0 else (None, -status))
        assert not find_all(run)


class TestEnvironmentAlone:
    """`COMPDBG_RUN=DIR python ...` does what the command does; unset, nothing is done."""

    @pytest.mark.parametrize("name", ["COMPDBG_RUN", "VLLM_COMPDBG_RUN"])
    def test_it_records(self, name: str, tmp_path: Path) -> None:
        inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', '']); sys.exit(3)"
        went = go([sys.executable, "-c", inner], tmp_path, env=clean_environment(**{name: "some/run"}))
        assert went == (3, b"", b"")
        run = load(tmp_path / "some" / "run")
        assert hows(run) == ["environment", "run"]
        assert run.summary.complete
        assert run.summary.argv[1:] == ["-c", inner]
        assert run.summary.started is not None
        assert run.summary.exit_status is None, "a process cannot know its own"

    def test_options_of_a_run_hold_where_only_the_engines_variable_arrives(self, tmp_path: Path) -> None:
        env = clean_environment(VLLM_COMPDBG_RUN=str(tmp_path))
        (tmp_path / "run.json").write_text(
            '{"options": {"audit": "all", "source": false}, "complete": false}'
        )
        code = f"from compdbg.launch import child\nprint(child._options({str(tmp_path)!r}))\n"
        assert b"audit='all'" in go([sys.executable, "-c", code], tmp_path, env=env).stdout

    def test_a_second_program_is_a_second_run(self, tmp_path: Path) -> None:
        env = clean_environment(COMPDBG_RUN="run")
        assert go([sys.executable, "-c", "print(1)"], tmp_path, env=env) == (0, b"1\n", b"")
        again = go([sys.executable, "-c", "print(2)"], tmp_path, env=env)
        assert again.stdout == b"2\n"
        (line,) = again.stderr.decode().splitlines()
        second = Path(line.partition("recording to ")[2])
        assert line.startswith(f"compdbg: {tmp_path}/run holds an earlier run; recording to ")
        assert load(second).summary.argv[-1] == "print(2)"
        assert load(tmp_path / "run").summary.argv[-1] == "print(1)"

    def test_a_program_that_was_killed_is_a_run_that_is_over(self, tmp_path: Path) -> None:
        env = clean_environment(COMPDBG_RUN="run")
        assert (
            go([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path, env=env).status == -9
        )
        assert not load(tmp_path / "run").summary.complete
        assert b"recording to" in go([sys.executable, "-c", ""], tmp_path, env=env).stderr

    def test_programs_side_by_side_are_one_run(self, tmp_path: Path) -> None:
        """As where a batch system starts each rank."""
        env = clean_environment(COMPDBG_RUN=str(tmp_path / "run"))
        command = [sys.executable, "-c", "print('ready', flush=True); input()"]
        ranks = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env | {"RANK": rank})
            for rank in "012"
        ]
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == b"ready\n"
        for rank in ranks:
            rank.communicate(b"\n")
        assert load(tmp_path / "run").summary.ranks == [0, 1, 2]

    @pytest.mark.parametrize("words", [["-m", "compdbg"], ["-X", "dev", "-m", "compdbg"]])
    def test_our_own_command_is_no_program(self, words: list[str], tmp_path: Path) -> None:
        env = clean_environment(COMPDBG_RUN="run")
        assert go([sys.executable, *words, "--version"], tmp_path, env=env).status == 0
        assert not (tmp_path / "run").exists()

    def test_unset_it_loads_nothing(self, tmp_path: Path) -> None:
        code = "import sys; print([m for m in sys.modules if m.startswith('compdbg')])"
        assert go([sys.executable, "-c", code], tmp_path) == (0, b"[]\n", b"")

    def test_the_start_file_costs_next_to_nothing(self) -> None:
        line = START_FILE.read_text().splitlines()[-1]
        code = compile(line, "compdbg.pth", "exec")
        began = os.times().user
        for _ in range(1000):
            exec(code, {})
        assert (os.times().user - began) / 1000 < 100e-6, "two look-ups in the environment"


@pytest.fixture(scope="module")
def foreign_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of another environment, in which nothing is installed."""
    home = tmp_path_factory.mktemp("foreign")
    venv.create(home, with_pip=False, symlinks=True)
    return home / "bin" / "python"


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of an environment where compdbg is installed as by its wheel."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "compdbg").symlink_to(PACKAGE)
    (site / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    (site / "compdbg.pth").write_text(START_FILE.read_text())
    return home / "bin" / "python"


class TestForeignInterpreter:
    """`run -- COMMAND` where the command's Python has no compdbg: a folder on PYTHONPATH starts it."""

    def test_its_path_holds_nothing_of_ours(self, foreign_python: Path, tmp_path: Path) -> None:
        program = "import sys; print(sys.path, 'msgspec' in sys.modules, 'sitecustomize' in sys.modules)"
        plain = go([str(foreign_python), "-c", program], tmp_path)
        recorded = go(recording(tmp_path / "run", "--", str(foreign_python), "-c", program), tmp_path)
        assert recorded.stdout == plain.stdout
        assert hows(load(tmp_path / "run")) == ["run"]

    def test_its_own_sitecustomize_runs(self, foreign_python: Path, tmp_path: Path) -> None:
        write(
            tmp_path / "site",
            {"sitecustomize.py": "import sys; sys.early = __file__, __name__, __spec__.origin"},
        )
        program = "import sys; print(sys.early, sys.modules['sitecustomize'].__file__)"
        env = clean_environment(PYTHONPATH=str(tmp_path / "site"))
        plain = go([str(foreign_python), "-c", program], tmp_path, env=env)
        recorded = go(
            recording(tmp_path / "run", "--", str(foreign_python), "-c", program), tmp_path, env=env
        )
        assert plain.status == 0
        assert recorded.stdout == plain.stdout

    def test_its_children_are_recorded(self, foreign_python: Path, tmp_path: Path) -> None:
        program = "import subprocess, sys\nfor c in ('-c', '-Ic'): subprocess.run([sys.executable, c, ''])"
        go(recording(tmp_path / "run", "--", str(foreign_python), "-c", program), tmp_path)
        run = load(tmp_path / "run")
        assert hows(run) == ["run", "run"]
        assert [e.reason for _, e in run.log.of(ProcessMissed)] == ["python -I ignores PYTHONPATH"]

    def test_a_torch_there_is_watched_with_our_msgspec(self, foreign_python: Path, tmp_path: Path) -> None:
        write(tmp_path / "lib", {"torch/__init__.py": "__version__ = '9.9'"})
        program = "import torch; print(torch.__version__)"
        env = clean_environment(PYTHONPATH=str(tmp_path / "lib"))
        went = go(recording(tmp_path / "run", "--", str(foreign_python), "-c", program), tmp_path, env=env)
        assert went.stdout == b"9.9\n"
        assert load(tmp_path / "run").summary.torch == "9.9"


class TestInstalledElsewhere:
    """What the package and the start file do without any help."""

    def test_by_environment_alone(self, other_python: Path, tmp_path: Path) -> None:
        program = "import sys; print(sys.path)"
        plain = go([str(other_python), "-Ic", program], tmp_path)
        recorded = go([str(other_python), "-Ic", program], tmp_path, env=clean_environment(COMPDBG_RUN="run"))
        assert recorded == plain
        assert hows(load(tmp_path / "run")) == ["environment"]

    def test_as_a_command_its_environment_is_left_as_it_was(self, other_python: Path, tmp_path: Path) -> None:
        program = "import os, sys; print(sys.path, os.environ.get('PYTHONPATH'))"
        plain = go([str(other_python), "-c", program], tmp_path)
        recorded = go(recording(tmp_path / "run", "--", str(other_python), "-c", program), tmp_path)
        assert recorded.stdout == plain.stdout
        assert b"None" in plain.stdout
        assert hows(load(tmp_path / "run")) == ["run"]


def test_the_wheel_holds_the_start_file_at_its_root() -> None:
    import tomllib

    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["compdbg/launch/compdbg.pth"] == "compdbg.pth"


class TestPrivacy:
    def test_values_of_secret_arguments_and_variables_are_nowhere(self, tmp_path: Path) -> None:
        words = [
            "--api-key",
            "s3cret1",
            "--hf_token=s3cret2",
            "--password",
            "s3cret3",
            "user.secret=s3cret4",
            "--n",
            "5",
        ]
        env = clean_environment(
            VLLM_API_KEY="s3cret5",
            MY_VARIABLE="s3cret6",
            TORCH_TOKEN="s3cret7",
            TORCH_LOGS="",
            OMP_NUM_THREADS="1",
        )
        write(tmp_path, {"program.py": ""})
        went = go(recording(tmp_path / "run", "program.py", *words), tmp_path, env=env)
        assert went.status == 0
        written = "".join(p.read_text() for p in (tmp_path / "run").rglob("*") if p.is_file())
        assert "s3cret" not in written
        run = load(tmp_path / "run")
        assert run.summary.argv == [
            "program.py", "--api-key", "<hidden>", "--hf_token=<hidden>", "--password", "<hidden>",
            "user.secret=<hidden>", "--n", "5",
        ]  # fmt: skip
        ((_, start),) = run.log.of(ProcessStart)
        assert start.env["OMP_NUM_THREADS"] == "1"
        assert "MY_VARIABLE" not in start.env

    def test_words_that_are_no_unicode(self, tmp_path: Path) -> None:
        write(tmp_path, {"program.py": ""})
        assert go(recording(tmp_path / "run", "program.py", b"\xff"), tmp_path).status == 0
        assert load(tmp_path / "run").summary.argv == ["program.py", "\\udcff"]
        shown = go([sys.executable, "-m", "compdbg", "show", str(tmp_path / "run"), "--json"], tmp_path)
        assert json.loads(shown.stdout)["run"]["argv"] == ["program.py", "\\udcff"]


def test_a_program_without_torch_stays_light(tmp_path: Path) -> None:
    """No msgspec, no events, no hooks: 12 small modules of ours, and half a megabyte."""
    code = (
        "import sys, resource\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_maxrss, len(sys.modules), 'msgspec' in sys.modules)"
    )
    plain = go([sys.executable, "-c", code], tmp_path).stdout.split()
    recorded = go(recording(tmp_path / "run", "-c", code), tmp_path).stdout.split()
    assert recorded[2] == b"False"
    assert int(recorded[1]) - int(plain[1]) <= 16
    assert int(recorded[0]) - int(plain[0]) < 2000  # KiB


def test_the_command_is_started_from_a_folder_that_hides_the_library(tmp_path: Path) -> None:
    """`python -m compdbg` has the current directory first on its path."""
    write(tmp_path, {"enum.py": "1 / 0", "json.py": "1 / 0", "program.py": "print('runs')"})
    command = [sys.executable, "-m", "compdbg", "run", "-o", "run", "--quiet", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=clean_environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"runs\n", b"")
