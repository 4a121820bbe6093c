"""Studies of attentions, with what only they need."""
