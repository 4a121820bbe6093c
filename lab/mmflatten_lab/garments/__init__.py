"""Fashion-MNIST, and scenes of its garments."""
