"""Fashion-MNIST as files, on canvases, and in scenes."""
