"""Layouts of an imported network: channels last in place of PyTorch's and ONNX's channels first."""
