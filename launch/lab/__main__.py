"""Papers and benchmarks, in a clone: `python -m launch.lab paper|bench|page`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hpcml.errors import ConfigError, HpcmlError
from launch.lab.core import bench, page, study
from launch.lab.core.tables import write_atomically
from launch.lab.core.timing import stopping
from launch.lab.papers import registry


def parser() -> bench.Parser:
    root = bench.Parser(prog="python -m launch.lab", description=__doc__, allow_abbrev=False)
    commands = root.add_subparsers(dest="command", required=True, metavar="paper|bench|page")
    paper = commands.add_parser("paper", help="compute a table or figure of a paper and judge its claims", allow_abbrev=False)
    paper.add_argument("paper", nargs="?", help=f"one of {', '.join(registry.NAMES)}")
    paper.add_argument("exhibit", nargs="?", help="table or figure of the paper, such as table-3")
    paper.add_argument("data", nargs="*", type=Path, help="datasets that replace those of the paper")
    paper.add_argument("-o", "--output", type=Path, help="output folder")
    paper.add_argument("--ranks", type=int, default=1, help="MPI ranks of each command (default: 1)")
    paper.add_argument("--quick", action="store_true", help="run on small synthetic rows within seconds; claims are not judged")
    paper.add_argument("--list", action="store_true", help="list all tables and figures")
    again = paper.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="continue an interrupted study")
    again.add_argument("--force", action="store_true", help="start again and replace the content of the folder")
    measure = commands.add_parser("bench", help="run a benchmark", allow_abbrev=False, add_help=False)
    measure.add_argument("name", nargs="?")
    measure.add_argument("words", nargs=argparse.REMAINDER)
    page_parser = commands.add_parser("page", help="write the page of the papers from outcomes", allow_abbrev=False)
    page_parser.add_argument("folder", type=Path, help="folder with outcomes of studies (PAPER-EXHIBIT.json)")
    page_parser.add_argument("-o", "--output", type=Path, required=True, help="Markdown file to write")
    return root


def run_paper(arguments: argparse.Namespace) -> None:
    if arguments.list or arguments.paper is None:
        print(registry.listing())
        return
    paper = registry.paper_named(arguments.paper)
    if arguments.exhibit is None or arguments.output is None:
        what = "an exhibit" if arguments.exhibit is None else "-o FOLDER"
        raise ConfigError(f"missing {what}; `python -m launch.lab paper --list` lists all exhibits")
    if arguments.ranks < 1:
        raise ConfigError(f"--ranks {arguments.ranks}: expected at least 1")
    options = {name: getattr(arguments, name) for name in ("quick", "resume", "force", "ranks")}
    print(study.make(paper, paper.exhibit(arguments.exhibit), arguments.output, user_data=arguments.data, **options))


def run_bench(name: str | None, words: list[str]) -> None:
    known = bench.names()
    if name is None or name in ("-h", "--help"):
        print("\n".join(["Benchmarks (python -m launch.lab bench NAME --help):", *known]))
    elif name not in known:
        raise ConfigError(f"unknown benchmark {name!r}; the benchmarks are {', '.join(known)}")
    else:
        bench.run_bench(name, words)


def main(words: list[str]) -> int:
    try:
        with stopping():
            arguments = parser().parse_args(words)
            if arguments.command == "paper":
                run_paper(arguments)
            elif arguments.command == "bench":
                run_bench(arguments.name, arguments.words)
            else:
                write_atomically(arguments.output, page.page(registry.all_papers(), page.read_outcomes(arguments.folder)).encode())
    except HpcmlError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"lab: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
