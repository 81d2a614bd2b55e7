"""A third-party Python file on this machine's GPU: what each of its launches takes, beside what its trace counts."""
