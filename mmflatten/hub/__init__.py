"""Published models, written and read: weights, a config as data and a card, of which nothing is
executed.
"""
