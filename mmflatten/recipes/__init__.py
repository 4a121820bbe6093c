"""What a config trains with: its recipe in words, where every part of it comes from, and what goes wrong with it."""
