"""Checks of how a command ended."""

import os
import re
import threading


def done(result):
    assert result.returncode == 0, result.stderr
    return result


def refused(result, words="", pattern="", alone=False):
    """Return the message of a command that failed with exit code 2 and one message, which has the words and matches the pattern.

    `alone`: nothing else is on stderr.
    """
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    messages = [line for line in result.stderr.splitlines() if line.startswith("hpcml: ")]
    assert len(messages) == 1 and "Traceback" not in result.stderr, result.stderr
    assert words in messages[0] and re.search(pattern, messages[0]), result.stderr
    assert not alone or result.stderr.count("\n") == 1, result.stderr
    return messages[0]


def slow_pipe(path, content):
    """Make a named pipe into which a thread writes line by line when it is read, and return its path."""

    def write():
        with path.open("wb", buffering=0) as file:
            for line in content.splitlines(keepends=True):
                file.write(line)

    os.mkfifo(path)
    threading.Thread(target=write, daemon=True).start()
    return path
