"""A program under `compdbg run` does what it does under Python: each is run both ways and compared."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.launching import MOST_LINES, clean_environment, twice, write

SCRIPT = "program.py"


class Program(NamedTuple):
    """A behaviour: the files, the words after `python`, what the program finds, and how it must end."""

    text: str = ""
    words: tuple[str | bytes, ...] = (SCRIPT,)
    status: int = 0
    stdin: bytes = b""
    says: bytes = b""
    """A part of what it prints, so that two equal failures are not taken for success."""
    files: dict[str, str] = {}
    env: dict[str, str] = {}


PROGRAMS: dict[str, Program] = {
    "returns": Program("print('done')", says=b"done"),
    "sys.exit with a number": Program("import sys; sys.exit(3)", status=3),
    "sys.exit with a text": Program("import sys; sys.exit('gave up')", status=1, says=b"gave up\n"),
    "sys.exit beyond a byte": Program("import sys; sys.exit(-1)", status=255),
    "os._exit": Program("import os; print('x', flush=True); os._exit(7)", status=7, says=b"x"),
    "uncaught exception": Program(
        "def f(n):\n    return n / 0\n\nf(1)\n", status=1, says=b"ZeroDivisionError: division by zero"
    ),
    "exceptions in a chain": Program(
        """
        try:
            {}["missing"]
        except KeyError as error:
            error.add_note("a note")
            raise RuntimeError("second") from error
        """,
        status=1,
        says=b"The above exception was the direct cause",
    ),
    "an exception group": Program(
        "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])", status=1, says=b"(2 sub-exceptions)"
    ),
    "excepthook of its own": Program(
        """
        import sys, traceback

        def hook(kind, error, trace):
            frames = [f.name for f in traceback.extract_tb(trace)]
            print("hook", kind.__name__, frames, error.__traceback__ is trace)

        def fail():
            raise ValueError

        sys.excepthook = hook
        fail()
        """,
        status=1,
        says=b"hook ValueError ['<module>', 'fail'] True",
    ),
    "the whole stack": Program(
        "import traceback; print(len(traceback.extract_stack())); traceback.print_stack()", says=b"1\n"
    ),
    "KeyboardInterrupt": Program("raise KeyboardInterrupt", status=-signal.SIGINT, says=b"KeyboardInterrupt"),
    "syntax error": Program("print('x'\n", status=1, says=b"SyntaxError: '(' was never closed"),
    "null bytes": Program("print(1)\0", status=1, says=b"null bytes"),
    "missing script": Program(words=("nowhere.py",), status=2, says=b"No such file or directory"),
    "missing module": Program(words=("-m", "nowhere"), status=1, says=b"No module named nowhere"),
    "module that fails to import": Program(
        words=("-m", "broken"), files={"broken.py": "import nowhere"}, status=1, says=b"ModuleNotFoundError"
    ),
    "arguments": Program(
        "import sys; print(ascii(sys.argv), ascii(sys.orig_argv[1:]))",
        words=(
            SCRIPT,
            "--",
            "-o",
            "",
            "a b",
            "--help",
            "--no-source",
            "-c",
            "-cc.x=1",
            "ü",
            b"\xff\xfe",
            "$HOME",
            "*",
        ),
        says=b"'\\udcff\\udcfe'",
    ),
    "-c": Program(
        words=("-c", "import sys; print(sys.argv, __name__, sys.path[0] == '')", "-c", "--quiet"),
        says=b"['-c', '-c', '--quiet'] __main__ True",
    ),
    "-c attached": Program(words=("-cprint(1)",), says=b"1\n"),
    "-c with an error": Program(words=("-c", "1/0"), status=1, says=b'File "<string>", line 1, in <module>'),
    "-m package": Program(
        words=("-m", "pack.inner", "--flag", "-x"),
        files={
            "pack/__init__.py": "",
            "pack/inner/__init__.py": "print('package')",
            "pack/inner/__main__.py": """
                import sys
                from . import __name__ as above
                print(sys.argv[1:], __package__, above, __spec__.name)
            """,
        },
        says=b"['--flag', '-x'] pack.inner pack.inner pack.inner.__main__",
    ),
    "-m module": Program(
        words=("-m", "single"),
        files={"single.py": "import sys; print(__name__, __spec__.name, sys.argv[0] == __file__)"},
        says=b"__main__ single True",
    ),
    "a folder": Program(
        words=("app",), files={"app/__main__.py": "import sys; print(sys.path[0][-3:])"}, says=b"app"
    ),
    "the program on stdin": Program(
        words=("-", "x"), stdin=b"import sys; print(sys.argv)", says=b"['-', 'x']"
    ),
    "stdin, stdout and stderr": Program(
        """
        import sys
        data = sys.stdin.buffer.read()
        sys.stdout.buffer.write(data[::-1])
        sys.stderr.buffer.write(data + b"\\n")
        print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.line_buffering)
        """,
        stdin=bytes(range(256)) * 300,
        says=bytes(range(255, -1, -1)),
    ),
    "an unfinished last line": Program(
        "import sys; print('out', end=''); print('err', file=sys.stderr)", says=b"out"
    ),
    "where it runs": Program(
        """
        import os, sys
        print(os.getcwd(), sys.path, sys.flags, sys.executable, sys.warnoptions, sys._xoptions)
        print({k: v for k, v in os.environ.items() if "COMPDBG" not in k})
        print(__file__, __name__, __spec__, __builtins__, sorted(vars()))
        """,
        env={"PYTHONPATH": "/one:/two"},
        says=b"'PYTHONPATH': '/one:/two'",
    ),
    "without PYTHONPATH": Program(
        "import os, sys; print(os.environ.get('PYTHONPATH', 'unset'), sys.path)", says=b"unset"
    ),
    "what is loaded": Program(
        """
        import sys
        print(sorted(m for m in sys.modules if m.split(".")[0] not in ("compdbg", "_json", "atexit")))
        """
    ),
    "options of Python": Program(
        "import sys, warnings; print(sys.flags, sys._xoptions); warnings.warn('w')",
        words=("-OBu", "-X", "dev", "-Werror", "-Xfaulthandler", SCRIPT),
        status=1,
        says=b"UserWarning: w",
    ),
    "isolated": Program(
        "import sys; print(sys.flags.isolated, sys.path[0])", words=("-I", SCRIPT), says=b"1 "
    ),
    "warnings name the caller": Program(
        "import helper\nhelper.old()\n",
        words=("-Walways", SCRIPT),
        files={
            "helper.py": """
                import warnings
                def old():
                    warnings.warn("old", DeprecationWarning, stacklevel=2)
            """
        },
        says=b"program.py:2: DeprecationWarning: old",
    ),
    "pickles of __main__": Program(
        """
        import pickle, sys
        class Point:
            def __init__(self, x): self.x = x
        pickled = pickle.dumps(Point(1))
        print(pickled, pickle.loads(pickled).x, sys.modules["__main__"].__file__)
        """,
        says=b"__main__",
    ),
    "the order of atexit": Program(
        """
        import atexit, threading, time
        atexit.register(print, "registered first")
        atexit.register(print, "registered second")
        threading.Thread(target=lambda: (threading.main_thread().join(), print("thread"))).start()
        class Last:
            def __del__(self): print("deleted")
        last = Last()
        print("end of main")
        """,
        says=b"end of main\nthread\nregistered second\nregistered first\n",
    ),
    "an exception at exit": Program(
        "import atexit; atexit.register(lambda: 1 / 0)", says=b"ZeroDivisionError"
    ),
    "sys.exit in atexit": Program("import atexit, sys; atexit.register(sys.exit, 5)"),
    "an exception in a thread": Program(
        "import threading; t = threading.Thread(target=lambda: 1 / 0, name='w'); t.start(); t.join()",
        says=b"Exception in thread w",
    ),
    "SIGTERM of its own": Program("import os; os.kill(os.getpid(), 15)", status=-signal.SIGTERM),
    "SIGTERM handled": Program(
        """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda n, f: sys.exit(n))
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        status=15,
    ),
    "SIGKILL": Program("import os; os.kill(os.getpid(), 9)", status=-signal.SIGKILL),
    "SIGHUP": Program("import os; os.kill(os.getpid(), 1)", status=-signal.SIGHUP),
    "abort": Program("import os; os.abort()", status=-signal.SIGABRT),
    "segfault": Program("import ctypes; ctypes.string_at(0)", status=-signal.SIGSEGV),
    "segfault with faulthandler": Program(
        "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)",
        status=-signal.SIGSEGV,
        says=b"Segmentation fault",
    ),
    "how signals stand at its start": Program(
        """
        import signal
        print([(s.name, str(signal.getsignal(s))) for s in sorted(signal.valid_signals(), key=int)
               if isinstance(s, signal.Signals)], signal.pthread_sigmask(signal.SIG_BLOCK, []))
        """,
        says=b"default_int_handler",
    ),
    "files that it opens": Program("import os; print(os.open('program.py', os.O_RDONLY))", says=b"3\n"),
    "every descriptor closed": Program(
        """
        import os
        os.closerange(3, 4096)
        file = open("out.txt", "w")
        import subprocess, sys
        file.write("mine")
        file.close()
        print(open("out.txt").read())
        """,
        says=b"mine",
    ),
    "stdout closed": Program("import os; os.close(1); os.write(2, b'still here\\n')", says=b"still here"),
    "recursion": Program(
        "def f(): f()\ntry: f()\nexcept RecursionError as e: print(e)",
        says=b"maximum recursion depth exceeded",
    ),
    "fork": Program(
        """
        import os, sys
        child = os.fork()
        if child == 0:
            print("child", flush=True)
            sys.exit(4)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        says=b"child\n4\n",
    ),
    "waiting for any child": Program(
        """
        import os
        try:
            print(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError as error:
            print(error)
        """,
        says=b"No child processes",
    ),
    "exec": Program(
        """
        import os, sys
        if len(sys.argv) > 1:
            print("second", sys.argv[1]); sys.exit(6)
        os.execv(sys.executable, [sys.executable, __file__, "life"])
        """,
        status=6,
        says=b"second life",
    ),
    "subprocess": Program(
        """
        import subprocess, sys
        inner = "import sys; print(sys.path, sys.argv)"
        print(subprocess.run([sys.executable, "-c", inner, "x"], capture_output=True))
        print(subprocess.run([sys.executable, "-c", "1/0"], capture_output=True))
        print(subprocess.run(["sh", "-c", "kill -9 $$"]))
        """,
        says=b"returncode=-9",
    ),
    "subprocess that is not there": Program(
        "import subprocess; subprocess.run(['nowhere'])", status=1, says=b"FileNotFoundError"
    ),
    "subprocess with an environment of its own": Program(
        """
        import subprocess, sys
        inner = "import os; print(dict(os.environ))"
        print(subprocess.run([sys.executable, "-c", inner], env={"A": "1"}, capture_output=True))
        """,
        says=b"'A': '1'",
    ),
    "stdout a closed pipe": Program(
        """
        import subprocess, sys
        inner = "import sys\\nfor i in range(100000): print(i)"
        pipe = subprocess.PIPE
        first = subprocess.Popen([sys.executable, "-c", inner], stdout=pipe, stderr=pipe)
        print(first.stdout.readline()); first.stdout.close()
        print(first.stderr.read(), first.wait())
        """,
        says=b"BrokenPipeError",
    ),
    "sitecustomize and usercustomize of the user": Program(
        "import sys; print(sys.modules['sitecustomize'].__file__, sys.early)",
        files={
            "site/sitecustomize.py": "import sys; sys.early = ['site', __name__, __file__, __spec__.name]",
            "site/usercustomize.py": "import sys; sys.early.append('user')",
        },
        env={"PYTHONPATH": "site"},
        says=b"'sitecustomize'",
    ),
    "a sitecustomize that fails": Program(
        "print('runs')",
        files={"site/sitecustomize.py": "1/0"},
        env={"PYTHONPATH": "site"},
        says=b"ZeroDivisionError",
    ),
    "modules with names of ours": Program(
        """
        import compiler, events, fixtures.models, launch, probe, record, tui, views
        print(*(m.mine for m in (compiler, events, fixtures.models, launch, probe, record, tui, views)))
        """,
        files={
            **{
                f"{n}.py": f"mine = {n!r}"
                for n in ("compiler", "events", "launch", "probe", "record", "tui", "views")
            },
            "fixtures/__init__.py": "",
            "fixtures/models.py": "mine = 'models'",
        },
        says=b"compiler events models launch probe record tui views",
    ),
    "modules with names of the library": Program(
        """
        import datetime, enum, inspect, json, platform, secrets, socket, threading, typing
        print([m.mine for m in (datetime, enum, inspect, json, platform, secrets, socket, threading, typing)])
        """,
        files={
            f"{n}.py": "mine = 'mine'"
            for n in (
                "datetime",
                "enum",
                "inspect",
                "json",
                "platform",
                "secrets",
                "socket",
                "threading",
                "typing",
            )
        },
        says=b"['mine', 'mine'",
    ),
}

START_METHODS = ("spawn", "fork", "forkserver")
for method in START_METHODS:
    PROGRAMS[f"multiprocessing by {method}"] = Program(
        f"""
        import multiprocessing, os, sys

        def work(n):
            if n == 3:
                print("from the worker", file=sys.stderr, flush=True)
            return n * n, __name__

        def fail():
            sys.exit(9)

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            with context.Pool(1) as pool:
                print(pool.map(work, range(4)))
            process = context.Process(target=fail)
            process.start(); process.join()
            print(process.exitcode)
        """,
        says=b"9\n",
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_under_python(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    here = tmp_path / "here"
    write(here, {SCRIPT: program.text, **program.files})
    ran = twice(here, program.words, program.stdin, clean_environment(**program.env))
    assert ran.recorded == ran.plain
    assert ran.plain.status == program.status
    assert program.says in ran.plain.stdout + ran.plain.stderr
    assert 1 <= len(ran.last_lines) <= MOST_LINES
    assert not [f for f in ran.run.health.hooks if f.state != "unused"], "torch was not imported"
    end = ran.run.summary
    assert end.complete
    assert (end.signal, end.exit_status) == (
        (-program.status, None) if program.status < 0 else (None, program.status)
    )
