"""Replaces `hpcml` and `mpirun` in PATH: sends a command of hpcml to standing ranks (tests/jobs/standing.py) and prints its output.

document_commands.py copies it into the folder `bin`, next to the folders of the ranks, whose names are the numbers of ranks. Other
programs and other numbers of ranks are run by the next program of that name in PATH.
"""

import json
import os
import sys
import time

PROGRAMS = os.path.dirname(os.path.abspath(sys.argv[0]))  # noqa: PTH100, PTH120 - pathlib would take most of the time
NAME, WORDS = os.path.basename(sys.argv[0]), sys.argv[1:]  # noqa: PTH119


def run_program():
    os.environ["PATH"] = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if folder != PROGRAMS)
    os.execvp(NAME, [NAME, *WORDS])


def send(folder, arguments):
    number = sum(name.endswith(".json") for name in os.listdir(folder))  # noqa: PTH208
    path = f"{folder}/{number}"
    with open(f"{path}.part", "w") as out:  # noqa: PTH123
        json.dump({"arguments": arguments, "folder": os.getcwd()}, out)  # noqa: PTH109
    os.rename(f"{path}.part", f"{path}.json")  # noqa: PTH104
    with open(f"{folder}/process") as file:  # noqa: PTH123
        launcher = f"/proc/{file.read()}/stat"
    while not (ended := os.path.exists(f"{path}.codes")):  # noqa: PTH110
        with open(launcher) as file:  # noqa: PTH123
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.01)
    for descriptor, name in ((1, "out"), (2, "err")):
        for rank in range(int(os.path.basename(folder))):  # noqa: PTH119
            if os.path.exists(f"{path}.{rank}.{name}"):  # noqa: PTH110
                with open(f"{path}.{rank}.{name}", "rb") as file:  # noqa: PTH123
                    while block := file.read(2**16):
                        os.write(descriptor, block)
    if not ended:
        os.write(2, f"the standing ranks ended during: hpcml {' '.join(arguments)}\n".encode())
        return 1
    with open(f"{path}.codes") as file:  # noqa: PTH123
        return max(json.load(file))


ranks, arguments = (WORDS[1], WORDS[3:]) if NAME == "mpirun" and WORDS[:1] == ["-n"] and WORDS[2:3] == ["hpcml"] else ("1", WORDS)
if (NAME == "mpirun" and arguments is WORDS) or not os.path.isdir(f"{PROGRAMS}/../{ranks}"):  # noqa: PTH112
    run_program()
sys.exit(send(os.path.abspath(f"{PROGRAMS}/../{ranks}"), arguments))  # noqa: PTH100
