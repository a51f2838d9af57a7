"""What it takes to stop anything and continue it: states as data (``values``), and checkpoints as folders (``folders``)."""
