"""Front ends: networks of users as Relax modules, from ``torch.export``, ONNX or Relax itself.

torch is imported when one of its graphs is converted, onnx when one of its models is.
"""
