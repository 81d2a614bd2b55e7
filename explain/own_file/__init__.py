"""A Python file of others on this machine's GPU: what each of its launches takes, beside what its trace counts."""
