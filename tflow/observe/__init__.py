"""Looking on while plans are trained: progress on the terminal, and run folders."""
