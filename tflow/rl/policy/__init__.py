"""Policies: networks, action heads, flat weights, exploration, files."""
