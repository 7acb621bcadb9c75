"""Wrong usage starts nothing; a log that can't be written costs a warning; what can be read is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compdbg.findings.collect import find_all
from compdbg.model.run import load
from compdbg.store.reader import CannotRead
from tests.integration.launching import Went, clean_environment, go, recording, write

OLD_LINE = '{"run": "r", "process": "7-ab", "rank": null, "seq": %d, "time": %d, "parent": null, %s}\n'
START = '"kind": "process-start", "pid": 7, "ppid": 1, "argv": ["x.py"], "executable": "p", "python": "3.11"'


@pytest.fixture
def compdbg(tmp_path: Path) -> Callable[..., Went]:
    write(tmp_path, {"program.py": "print('ran')"})
    return lambda *words: go([sys.executable, "-m", "compdbg", *words], tmp_path)


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            ([], "no program given"),
            (["--quiet"], "no program given"),
            (["--"], "-- needs a COMMAND"),
            (["-c"], "-c needs CODE"),
            (["-m"], "-m needs a MODULE"),
            (["-o"], "-o needs a value"),
            (["-X"], "-X needs a value"),
            (["--audit", "some", "program.py"], "invalid choice: 'some'"),
            (["--quite", "program.py"], "no such option: --quite; did you mean --quiet?"),
            (["--quiet=yes", "program.py"], "--quiet takes no value"),
            (["-Z", "program.py"], "no such option: -Z"),
            (["--no-guard", "program.py"], "no such option: --no-guard; did you mean --no-guards?"),
            (["--no-zebra", "program.py"], "no such option: --no-zebra; hooks are:"),
            (["-o", "", "program.py"], "-o needs a folder"),
            (["-o", "program.py", "program.py"], "program.py is not a folder"),
            (["-cc.bakend=eager", "program.py"], "no configuration key 'bakend'; did you mean 'backend'?"),
            (["-cc.backend", "program.py"], "-cc.backend needs =VALUE"),
            (["--cc.mode=SOME", "program.py"], "--cc.mode=SOME: no CompilationMode 'SOME'"),
            (["--enforce-eager=1", "program.py"], "--enforce-eager takes no value"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_one_line_and_nothing_started(
        self, words: list[str], complaint: str, compdbg: Callable[..., Went], tmp_path: Path
    ) -> None:
        went = compdbg("run", *words)
        assert (went.status, went.stdout) == (2, b"")
        (line,) = went.stderr.decode().splitlines()
        assert line.startswith("compdbg: error: ")
        assert complaint in line
        assert os.listdir(tmp_path) == ["program.py"]

    def test_help_lists_what_works(self, compdbg: Callable[..., Went]) -> None:
        text = compdbg("run", "--help").stdout.decode()
        assert "--inductor-patterns" in text
        assert "--check-replacements" in text
        assert "--sizes" not in text

    @pytest.mark.parametrize(
        ("command", "status"), [("nowhere", 127), ("./nowhere", 127), ("./program.py", 126)]
    )
    def test_a_command_that_cannot_be_run(
        self, command: str, status: int, compdbg: Callable[..., Went]
    ) -> None:
        went = compdbg("run", "--", command)
        assert (went.status, went.stdout) == (status, b"")
        assert went.stderr.startswith(f"compdbg: error: {command}: ".encode())

    def test_a_file_that_is_no_program(self, compdbg: Callable[..., Went], tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"\0\1\2")
        (tmp_path / "data").chmod(0o755)
        assert compdbg("run", "--", "./data") == (126, b"", b"compdbg: error: ./data: Exec format error\n")

    def test_a_folder_that_is_not_empty(self, compdbg: Callable[..., Went], tmp_path: Path) -> None:
        write(
            tmp_path / "run", {"notes.txt": "mine", "payloads/notes.txt": "mine", "payloads/0a.txt": "theirs"}
        )
        refused = compdbg("run", "-o", "run", "program.py")
        assert (refused.status, refused.stdout) == (2, b"")
        assert refused.stderr == b"compdbg: error: run is not empty; --force overwrites the run in it\n"
        for _ in range(2):
            assert compdbg("run", "-o", "run", "--force", "program.py").status == 0
        assert load(tmp_path / "run").summary.processes == 1
        assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
        assert os.listdir(tmp_path / "run" / "payloads") == ["notes.txt"]


class TestWhereRunsGo:
    def test_named_after_the_program_with_a_pointer_to_the_newest(
        self, compdbg: Callable[..., Went], tmp_path: Path
    ) -> None:
        write(tmp_path, {"pack/__init__.py": "", "pack/__main__.py": ""})
        named = {
            "program": ["program.py"],
            "pack": ["-m", "pack"],
            "command": ["-c", "1"],
            "true": ["--", "true"],
            "stdin": ["-"],
        }
        runs = tmp_path / "compdbg-runs"
        for name, words in named.items():
            assert compdbg("run", "--quiet", *words).status == 0
            assert re.fullmatch(name + r"-\d{8}-\d{6}-[0-9a-f]{4}", (runs / "latest").resolve().name)
        assert (runs / ".gitignore").read_text() == "*\n"

    def test_the_next_command_is_the_one_to_type(self, compdbg: Callable[..., Went], tmp_path: Path) -> None:
        def named(*options: str) -> bytes:
            """The command, less its first words: `explain` where the verdict was not worked out in time."""
            return compdbg("run", *options, "program.py").stderr.rpartition(b"; next: compdbg ")[2]

        assert named() in (b"show\n", b"explain\n")
        assert named("-o", "a b") in (b"show 'a b/'\n", b"explain 'a b/'\n")
        assert compdbg("show", "a b/").status == 0


class TestNoRoomOrRights:
    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        write(tmp_path, {"program.py": "import sys; print('ran'); sys.exit(3)"})
        went = go(recording(Path("/proc/nowhere"), "program.py"), tmp_path)
        assert (went.status, went.stdout) == (3, b"ran\n")
        (line,) = went.stderr.decode().splitlines()
        assert line.startswith("compdbg: not recording: ")

    def test_a_log_that_cannot_grow(self, tmp_path: Path) -> None:
        """One warning, the program's own way to its end, and a run that says that it is incomplete."""
        write(
            tmp_path,
            {
                "program.py": """
                    import os, resource, sys
                    from compdbg.record.process import current
                    lines = current().lines
                    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(lines.path) + 50,) * 2)
                    for n in range(30): lines.note("span", name="x", duration_s=0.0)
                    print("ran"); sys.exit(4)
                """
            },
        )
        went = go(recording(tmp_path / "run", "program.py"), tmp_path)
        assert (went.status, went.stdout) == (4, b"ran\n")
        first, *rest = went.stderr.decode().splitlines()
        assert first == "compdbg: recording is incomplete: [Errno 28] no space left for a whole line"
        if not rest[0].startswith("compdbg: recorded in"):  # on a busy machine it is not worked out in time
            assert rest[0] == "compdbg: F1 warning: 31 events are missing from the log"
        run = load(tmp_path / "run")
        assert (run.summary.exit_status, run.summary.complete) == (4, True)
        (finding,) = find_all(run)
        assert (finding.code, finding.data["lost"]) == ("recorder-degraded", 31)

    def test_a_log_that_has_room_again_says_how_much_is_missing(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            {
                "program.py": """
                    import os
                    from compdbg.record.process import current
                    lines = current().lines
                    path, lines.path = lines.path, "/proc/nowhere"
                    lines.abandon()
                    for n in range(3): lines.note("span", name="x", duration_s=0.0)
                    lines.path = path
                """
            },
        )
        went = go(recording(tmp_path / "run", "--quiet", "program.py"), tmp_path)
        assert went.stderr.count(b"\n") == 1
        run = load(tmp_path / "run")
        assert (run.health.lost, run.health.damaged) == (3, 0)
        assert "No such file" in run.health.lost_reason
        assert not list((tmp_path / "run").glob("*.lost-*"))

    def test_a_full_disk(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=32k", "x", disk], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("may not mount a file system")
        try:
            write(
                tmp_path,
                {
                    "program.py": """
                        import subprocess, sys
                        with open("disk/rest", "wb", buffering=0) as file:
                            try:
                                while True: file.write(bytes(512))
                            except OSError: pass
                        print(subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True).stdout)
                    """
                },
            )
            went = go(recording(disk / "run", "program.py"), tmp_path)
            assert (went.status, went.stdout) == (0, b"b'2\\n'\n")
            run = load(disk / "run")
            assert run.summary.exit_status == 0
            assert [f.code for f in find_all(run)] == ["recorder-degraded"]
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_folder_that_is_removed_meanwhile(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            {"program.py": "import os, shutil; shutil.rmtree(os.environ['COMPDBG_RUN']); print('ran')"},
        )
        assert go(recording(tmp_path / "run", "program.py"), tmp_path) == (0, b"ran\n", b"")


class TestReading:
    """Exit 3 and one line where there is nothing to read; what can be read is shown."""

    @pytest.mark.parametrize(
        ("files", "complaint"),
        [
            ({}, "holds no run: neither run.json nor *.jsonl"),
            ({"7-ab.jsonl": '{"run": "r", "proc'}, "holds nothing that could be read"),
            (
                {"run.json": '{"schema": "9.0"}'},
                "is of schema 9.0, newer than this compdbg can read; upgrade compdbg",
            ),
            (
                {"run.json": '{"schema": "x"}'},
                "is of schema x, newer than this compdbg can read; upgrade compdbg",
            ),
        ],
        ids=["empty", "nothing whole", "a newer schema", "no schema at all"],
    )
    def test_no_run(
        self, files: dict[str, str], complaint: str, compdbg: Callable[..., Went], tmp_path: Path
    ) -> None:
        (tmp_path / "run").mkdir()
        for name, text in files.items():
            (tmp_path / "run" / name).write_text(text)
        for command in ("show", "explain"):
            went = compdbg(command, "run/")
            assert (went.status, went.stdout) == (3, b"")
            assert went.stderr == f"compdbg: error: run {complaint}\n".encode()
        answer = json.loads(compdbg("show", "run/", "--json").stdout)
        assert answer == {"schema": 1, "error": {"code": "unreadable", "message": f"run {complaint}"}}

    def test_no_run_at_all(self, compdbg: Callable[..., Went], tmp_path: Path) -> None:
        assert compdbg("show").stderr.decode() == (
            f"compdbg: error: no run below {tmp_path}/compdbg-runs; record one with: compdbg run script.py\n"
        )
        complaint = b"compdbg: error: no run at ./nowhere/; runs are listed by: compdbg runs\n"
        assert compdbg("show", "./nowhere/") == (3, b"", complaint)

    def test_damaged_lines_are_skipped_and_counted(self, tmp_path: Path) -> None:
        good = OLD_LINE % (1, 1, START)
        (tmp_path / "7-ab.jsonl").write_bytes(
            good.encode() + b"garbage\n" + b'{"run": 5}\n' + b"\xff\xfe\n" + b"[" * 100_000 + b"\n" + b"\n"
            + (OLD_LINE % (2, 2, '"kind": "process-start", "pid": "seven"')).encode()
            + (OLD_LINE % (3, 3, '"kind": "from-the-future", "x": {"y": 1}')).encode()
            + (OLD_LINE % (4, 4, '"kind": "process-end", "a-newer-key": 1')).encode()
            + b'{"run": "r", "process": "7-ab", "ra'
        )  # fmt: skip
        run = load(tmp_path)
        assert [record.header.seq for record in run.log.records] == [1, 3, 4]
        health = run.health
        assert (health.damaged, health.partial, health.unknown) == (5, 1, {"from-the-future": 1})
        (finding,) = find_all(run)
        assert (finding.code, finding.data) == (
            "recorder-degraded", {"kind": "events", "lost": 0, "damaged": 5},
        )  # fmt: skip

    def test_a_last_line_cut_short_and_unknown_kinds_are_no_fault(self, tmp_path: Path) -> None:
        (tmp_path / "run.json").write_text('{"schema": "1.7"}')
        (tmp_path / "7-ab.jsonl").write_text(
            OLD_LINE % (1, 1, START) + OLD_LINE % (2, 2, '"kind": "from-the-future"') + '{"run": '
        )
        assert not find_all(load(tmp_path))

    @pytest.mark.parametrize(
        "manifest",
        [
            "",
            "{",
            "[]",
            '{"argv": 5, "exit_status": "x", "findings": [], "started": {}}',
            "\udcff",
            "[" * 9999,
        ],
    )
    def test_a_damaged_manifest(self, manifest: str, tmp_path: Path) -> None:
        (tmp_path / "run.json").write_text(manifest, errors="surrogateescape")
        (tmp_path / "7-ab.jsonl").write_text(OLD_LINE % (1, 1, START))
        summary = load(tmp_path).summary
        assert (summary.argv, summary.exit_status, summary.started) == (["x.py"], None, None)

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        (tmp_path / "folder.jsonl").mkdir()
        os.mkfifo(tmp_path / "pipe.jsonl")
        (tmp_path / "gone.jsonl").symlink_to("nowhere")
        with pytest.raises(CannotRead, match="holds no run"):
            load(tmp_path)

    def test_a_clock_set_back_does_not_change_the_order_of_a_process(self, tmp_path: Path) -> None:
        (tmp_path / "7-ab.jsonl").write_text(
            OLD_LINE % (1, 50, START) + OLD_LINE % (2, 10, '"kind": "process-end"')
        )
        assert [r.header.seq for r in load(tmp_path).log.records] == [1, 2]

    def test_a_run_that_is_being_written(self, tmp_path: Path) -> None:
        program = "import sys; print('ready', flush=True); sys.stdin.read()"
        with subprocess.Popen(
            recording(tmp_path / "run", "-c", program),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment(),
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert not load(tmp_path / "run").summary.complete
            process.communicate()
        assert load(tmp_path / "run").summary.complete


class TestRuns:
    def test_newest_first_with_ends_and_counts(self, compdbg: Callable[..., Went], tmp_path: Path) -> None:
        assert compdbg("runs").stdout.decode().splitlines()[1:] == [
            "  no runs here; record one with: compdbg run script.py"
        ]
        compdbg("run", "program.py")
        compdbg("run", "-c", "import os; os.abort()")
        write(tmp_path / "compdbg-runs" / "old", {"run.json": '{"schema": "9.0"}'})
        os.utime(tmp_path / "compdbg-runs" / "old" / "run.json", (0, 0))
        answer = json.loads(compdbg("runs", "--json").stdout)
        assert (answer["schema"], answer["run"]) == (1, None)
        killed, ran, old = answer["items"]
        assert (killed["program"], killed["state"], killed["signal"]) == (
            ["-c", "import os; os.abort()"], "ended", 6,
        )  # fmt: skip
        assert (ran["program"], ran["exit_status"], ran["errors"], ran["warnings"]) == (
            ["program.py"],
            0,
            0,
            0,
        )
        assert ran["age_s"] >= 0
        assert old["state"] == "unreadable"
        text = compdbg("runs").stdout.decode()
        assert "signal 6" in text
        assert "exit 0" in text

    def test_a_run_whose_leader_is_gone_is_stopped(
        self, compdbg: Callable[..., Went], tmp_path: Path
    ) -> None:
        dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True).stdout
        manifest = {"schema": "1.0", "complete": False, "pid": int(dead), "host": os.uname().nodename}
        write(tmp_path / "compdbg-runs", {
            "gone/run.json": json.dumps(manifest),
            "here/run.json": json.dumps(manifest | {"pid": os.getpid()}),
        })  # fmt: skip
        states = {
            item["run"]: item["state"] for item in json.loads(compdbg("runs", "--json").stdout)["items"]
        }
        assert states == {"gone": "stopped", "here": "running"}
