"""The program `hpcml`: it parses the command line of a class in `hpcml.commands`.

`app` finds the command, `config_files` reads `--config`, `guard` stands around everything: a signal
or an error ends the program with one sentence and an exit code. Begin with `app`, then `guard`.
"""
