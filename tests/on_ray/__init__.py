"""What only real processes can show: deaths, hangs, memory, clusters. All of it is marked ``ray``."""
