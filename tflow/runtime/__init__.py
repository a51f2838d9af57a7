"""Runs what combinators describe: one driver loop, actors with FIFO mailboxes, a bound on calls in flight."""
