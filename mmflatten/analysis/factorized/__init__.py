"""Memory and computation of factorized and conventional attention, as Factorized Attention states them."""
