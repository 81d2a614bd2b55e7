"""The first difference of two runs: aligned by what their variables hold, named by line, element and likely cause."""
