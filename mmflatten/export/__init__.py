"""Trained models as files that other runtimes execute: ONNX, OpenVINO, PyTorch's pt2 and TorchScript."""
