"""`python -m explain.sandbox`: which protections this machine has. Exit status 0 if third-party code may run here."""

from explain.sandbox.protections import protections

print(protections().line)
raise SystemExit(0 if protections().complete else 1)
