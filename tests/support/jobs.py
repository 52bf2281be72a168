"""How a command must have ended, for tests that start one."""

import os
import re
import threading


def done(result):
    """The result of a command that must have ended well."""
    assert result.returncode == 0, result.stderr
    return result


def refused(result, words="", pattern="", alone=False):
    """The one sentence of a command that refused: exit code 2, words or a pattern in it; `alone`: nothing else on stderr."""
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    ours = [line for line in result.stderr.splitlines() if line.startswith("hpcml: ")]
    assert len(ours) == 1 and "Traceback" not in result.stderr, result.stderr
    assert words in ours[0] and re.search(pattern, ours[0]), result.stderr
    assert not alone or result.stderr.count("\n") == 1, result.stderr
    return ours[0]


def slow_pipe(path, content):
    """Make a named pipe into which somebody writes line by line as soon as it is read. Returns its path."""

    def write():
        with path.open("wb", buffering=0) as file:
            for line in content.splitlines(keepends=True):
                file.write(line)

    os.mkfifo(path)
    threading.Thread(target=write, daemon=True).start()
    return path
