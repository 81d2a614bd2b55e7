"""The commands of `python -m explain`: each module has a command's arguments and what it does."""
