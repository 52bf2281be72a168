"""The program `hpcml`: it parses the command line and runs a class of `hpcml.commands`.

`app` finds the command, `config_files` reads `--config`, and `guard` ends the process after a signal, with one sentence and an exit
code. Start with `app`, then `guard`.
"""
