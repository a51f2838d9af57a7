"""The plan's nodes and the methods that build them. Nothing here starts, waits, reads a clock or draws a random number."""
