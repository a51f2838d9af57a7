"""Contestants of ``benchmarks.contest``: programs of their own, which print what came of them as one line of JSON. Each runs in
the environment of its library; those of peers import nothing of this repository but the
clock (``stopwatch``)."""
