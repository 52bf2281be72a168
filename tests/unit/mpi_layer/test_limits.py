import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpcml.errors import ConfigError
from hpcml.mpi import runtime
from hpcml.mpi.memory import control_groups, limits

MB = 10**6
V1 = "36 30 0:1 {root} {folder} rw shared:9 - cgroup cgroup rw,memory"
V2 = "36 30 0:1 {root} {folder} rw - cgroup2 cgroup2 rw,nsdelegate"
MOUNTED_1, MOUNTED_2 = V1.format(root="/", folder="/sys/fs/cgroup/memory"), V2.format(root="/", folder="/sys/fs/cgroup")
NOTHING = "9223372036854771712"


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch):
    for name in [*os.environ]:
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)


@pytest.fixture
def tree(tmp_path):

    def make(cgroup, mountinfo, files):
        for name, text in {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return min(limits(tmp_path))

    return make


GROUP = "sys/fs/cgroup"
JOB = "/slurm/uid_7/job_12"
TREES = {
    "the whole machine": ("0::/", MOUNTED_2, {f"{GROUP}/memory.max": str(500 * MB)}),
    "version 2, a level above": (
        *(f"0::{JOB}/step_0/user/task_1", MOUNTED_2),
        {f"{GROUP}{JOB}/memory.max": str(500 * MB), f"{GROUP}{JOB}/step_0/user/task_1/memory.max": "max"},
    ),
    "version 2, throttled": (
        *(f"0::{JOB}", MOUNTED_2),
        {f"{GROUP}{JOB}/memory.max": str(900 * MB), f"{GROUP}{JOB}/memory.high": str(500 * MB)},
    ),
    "version 1, a level above": (
        *(f"9:name=systemd:/\n4:cpu,memory:{JOB}/step_0\n0::/", MOUNTED_1),
        {
            f"{GROUP}/memory{JOB}/memory.limit_in_bytes": str(500 * MB),
            f"{GROUP}/memory{JOB}/step_0/memory.limit_in_bytes": NOTHING,
            f"{GROUP}/memory/memory.limit_in_bytes": NOTHING,
        },
    ),
    "both versions, the first limits": (
        f"4:memory:{JOB}\n0::/user.slice",
        MOUNTED_1 + "\n" + V2.format(root="/", folder="/sys/fs/cgroup/unified"),
        {f"{GROUP}/memory{JOB}/memory.limit_in_bytes": str(500 * MB), f"{GROUP}/unified/user.slice/cgroup.procs": "1"},
    ),
    "a container that sees its own part": (
        *("4:memory:/docker/abc/inner", V1.format(root="/docker/abc", folder="/sys/fs/cgroup/memory")),
        {f"{GROUP}/memory/memory.limit_in_bytes": str(500 * MB), f"{GROUP}/memory/inner/memory.limit_in_bytes": NOTHING},
    ),
    "a group outside of what is mounted": (
        *("0::/../other", MOUNTED_2),
        {f"{GROUP}/memory.max": str(500 * MB), f"{GROUP}/other/memory.max": "1"},
    ),
    "a limit above what is mounted": (
        *("4:memory:/docker/abc", V1.format(root="/docker/abc", folder="/sys/fs/cgroup/memory")),
        {
            f"{GROUP}/memory/memory.limit_in_bytes": NOTHING,
            f"{GROUP}/memory/memory.stat": f"cache 1\nhierarchical_memory_limit {500 * MB}\nhierarchical_memsw_limit 7",
        },
    ),
    "an odd mount point": (
        *("0::/a b:c", V2.format(root="/", folder=r"/my\040groups")),
        {"my groups/a b:c/memory.max": str(500 * MB)},
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_smallest_limit_applies(tree, name):
    limit = tree(*TREES[name])
    assert limit == 500 * MB
    assert limit.source.startswith("control group /")


@pytest.mark.parametrize("text", ["", "max", "-1", "١٢", "12 MB", NOTHING])
def test_ignores_text_that_is_not_a_limit(tree, text):
    found = tree("0::/a", MOUNTED_2, {f"{GROUP}/a/memory.max": text})
    assert found.source == "the machine's memory"
    assert found == min(limits(Path("/nowhere")))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SLURM_MEM_PER_NODE": "1G"}, 2**30),
        ({"SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "3"}, 300 * 2**20),
        ({"SLURM_MEM_PER_NODE": "500", "SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "3"}, 300 * 2**20),
        ({"SLURM_MEM_PER_NODE": "0"}, None),
        ({"SLURM_MEM_PER_NODE": "much"}, None),
        ({"SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "0"}, None),
    ],
)
def test_slurm_limits(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = [int(limit) for limit in limits(Path("/nowhere")) if "Slurm" in limit.source]
    assert min(found, default=None) == expected


def limit_in_new_process(*before):
    show = "from hpcml import mpi; from hpcml.mpi import memory; m = memory.node_memory(); "
    show += "print(int(m), memory.room_per_rank(mpi.self_comm()), m.source)"
    lines = "\n".join(["set -e", *before, 'exec "$0" -c "$1"'])
    done = subprocess.run(["bash", "-c", lines, sys.executable, show], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    size, room, source = done.stdout.split(maxsplit=2)
    return int(size), float(room), source.strip()


@pytest.mark.parametrize("option", ["-v", "-d"])
def test_ulimit_is_what_remains(option):
    size, room, source = limit_in_new_process(f"ulimit {option} 4000000")
    assert size < 4000000 * 1024  # the interpreter has some of it
    assert source == f"ulimit {option}"
    assert room == size / 2


@contextmanager
def real_group():
    made = []
    try:
        for kind, _, parent in control_groups(Path("/")):
            limit = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}[kind]
            group = parent / f"hpcml-test-{os.getpid()}"
            with suppress(OSError):
                group.mkdir()
                made.append(group)
                (group / "inner").mkdir()
                made.append(group / "inner")
                (group / limit).write_text(str(500 * MB))
                yield group
                return
        pytest.skip("no control group that limits memory can be made here")
    finally:
        for folder in reversed(made):
            folder.rmdir()


def test_real_control_group():
    with real_group() as group:
        size, room, source = limit_in_new_process(f"echo $$ >{group}/inner/cgroup.procs")
    assert 499 * MB <= size <= 500 * MB  # whole pages
    assert room == size / 2
    assert source.startswith(f"control group {group}/memory.")


MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_number(monkeypatch):
    monkeypatch.setenv(runtime.CELLS, "")
    del os.environ[runtime.CELLS]


@pytest.fixture
def cells(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path)

    def choose(size, free, n_ranks):
        found = SimpleNamespace(f_frsize=4096, f_blocks=size // 4096, f_bavail=free // 4096)
        monkeypatch.setattr(runtime.os, "statvfs", lambda _: found)
        runtime.fit_shared_memory(n_ranks)
        chosen = os.environ.pop(runtime.CELLS, None)
        return None if chosen is None else int(chosen)

    return choose


def bytes_used(n_ranks, n_cells):
    return n_ranks * (12_288 + 16_384 * n_cells)


@pytest.mark.parametrize(("n_ranks", "size"), [(1, 1 << 34), (128, 1 << 34), (1, 0), (8, 0)])  # 0: no limit
def test_large_memory_leaves_the_default(cells, n_ranks, size):
    assert cells(size, size, n_ranks) is None


@pytest.mark.parametrize("n_ranks", [1, 3, 64])
@pytest.mark.parametrize("size", [MIB // 8, MIB, 3 * MIB, 64 * MIB])
def test_chosen_cells_fit(cells, n_ranks, size):
    if size < bytes_used(n_ranks, 1):
        with pytest.raises(ConfigError, match="but MPICH needs"):
            cells(size, size, n_ranks)
        return
    n_cells = cells(size, size, n_ranks)
    n_cells = 64 if n_cells is None else n_cells
    assert 1 <= n_cells <= 64
    assert bytes_used(n_ranks, n_cells) <= size
    if size >= 2 * n_ranks * 80_000:
        assert n_cells >= 4  # so few cost no time


def test_ranks_of_a_node_choose_the_same_size(cells):
    size = 16 * MIB
    assert len({cells(size, free, 4) for free in (size, size // 2, 0)}) == 1


def test_one_process_uses_free_memory(cells):
    assert cells(64 * MIB, MIB // 10, 1) == 2  # of half of 104,857 bytes, 12,500 and 16,400 for each cell
    with pytest.raises(ConfigError, match=r"has only 8 kB, but MPICH needs 29 kB; enlarge it \(docker run --shm-size=1g;"):
        cells(64 * MIB, 8192, 1)
    with pytest.raises(ConfigError, match=r"has only 32 kB, but MPICH needs 58 kB; enlarge it"):
        cells(32768, 32768, 2)


def test_missing_and_read_only_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path / "none")
    with pytest.raises(
        ConfigError, match=r"none does not exist or cannot be written, but MPICH needs it; mount it writable \(docker run --tmpfs"
    ):
        runtime.fit_shared_memory(1)
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(runtime.os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=r" does not exist or cannot be written, but MPICH needs it; mount it writable"):
        runtime.fit_shared_memory(1)


def test_removes_memory_of_an_earlier_process(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path)
    for number in (os.getpid(), os.getpid() + 1):
        (tmp_path / f"mpich_shm_{number:x}_0").touch()
    runtime.fit_shared_memory(1)
    assert [path.name for path in tmp_path.iterdir()] == [f"mpich_shm_{os.getpid() + 1:x}_0"]
