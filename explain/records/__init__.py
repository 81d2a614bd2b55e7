"""What GPUs measured: a point for each experiment, the file that holds a GPU's points, the plan of the whole set, the shelf of files."""
