"""What the fused kernels do on the GPU at hand: are they right, how fast are they, what do models gain."""
