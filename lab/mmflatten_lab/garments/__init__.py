"""Fashion-MNIST as files and in scenes."""
