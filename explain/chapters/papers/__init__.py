"""The papers' figures and tables as data with their sources, the experiments that repeat them, and what a GPU's record says of those."""
