"""Trained models as files for other runtimes: ONNX, OpenVINO and PyTorch's pt2."""
