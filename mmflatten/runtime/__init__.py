"""Exported files as models: run by ONNX Runtime or OpenVINO on the CPU, with a task's results."""

ONNX_RUNTIME = 'onnxruntime'
OPENVINO = 'openvino'
RUNTIMES = (ONNX_RUNTIME, OPENVINO)
