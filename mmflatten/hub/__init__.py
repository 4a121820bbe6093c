"""Published models: folders with weights, a config as data and a card. Nothing in them is executed."""
