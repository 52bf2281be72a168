"""The commands of `hpcml`, a file for each group of them.

`app` finds the command, `config_files` reads `--config`, `guard` stands around everything: a signal
or an error ends the program with one sentence and an exit code. A command turns words into options,
opens a session (`session`) and calls the one function of a room that does the work. Begin with
`app`, then `train`.
"""
