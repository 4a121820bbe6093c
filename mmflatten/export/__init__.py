"""Trained models as ONNX files, for ONNX Runtime and OpenVINO."""
