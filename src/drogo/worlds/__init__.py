"""Worlds whose exact answer is known: text maps, MiniGrid, and classic control."""
