"""Replay: buffers, priorities, and the actors that hold them."""
