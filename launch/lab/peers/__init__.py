"""Other trainers, each run as a program of its own; `python -m launch.lab bench peers` compares them with hpcml."""
