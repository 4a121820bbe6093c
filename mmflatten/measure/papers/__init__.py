"""Results of the papers, and the cost of the configs that reproduce them."""
