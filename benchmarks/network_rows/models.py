"""The networks: torch modules with random weights made here, and example arguments, batch 1.

Nothing is downloaded. The same name gives the same weights and examples in every process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Model:
    """A torch module in eval mode and the arguments of a call.

    Attributes
    ----------
    name: of the network.
    convolutional: whether most of its operations are convolutions.
    arguments, keywords: of a call.
    """

    name: str
    convolutional: bool
    module: Any
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def examples(self) -> Any:
        """What ``import_network`` takes."""
        return dict(self.keywords) if self.keywords else self.arguments


def make(name: str) -> Model:
    """Make a network. ImportError, with the package, where one is missing."""
    import torch

    _import_torchvision()
    torch.manual_seed(0)
    build, convolutional, *settings = (_NETWORKS | _SMALL)[name]
    module, examples = build(*settings)
    module.eval().requires_grad_(False)
    for part in module.modules():  # what training would have left
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.running_mean.normal_(0.0, 0.1)
            part.running_var.uniform_(0.8, 1.2)
    if isinstance(examples, dict):
        return Model(name, convolutional, module, keywords=examples)
    return Model(name, convolutional, module, (examples,))


def _torchvision(name: str, shape: tuple[int, ...], **settings: Any) -> tuple[Any, Any]:
    import torch
    import torchvision

    return torchvision.models.get_model(name, weights=None, **settings), torch.randn(shape)


def _import_torchvision() -> None:
    """Import it, if it is installed; transformers imports it too.

    Beside another build of torch it has no compiled operators, and fails as two are not declared.
    No network here uses them.
    """
    import torch

    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except RuntimeError:
        for name in [one for one in sys.modules if one.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        import torchvision  # noqa: F401


_KEPT: list[Any] = []  # a library that is freed takes its operators along


def _mobilenet_v2() -> tuple[Any, Any]:
    return _torchvision("mobilenet_v2", (1, 3, 224, 224))


def _resnet_50() -> tuple[Any, Any]:
    return _torchvision("resnet50", (1, 3, 224, 224))


def _inception_v3() -> tuple[Any, Any]:
    return _torchvision("inception_v3", (1, 3, 299, 299), init_weights=False)


def _resnet_18_3d() -> tuple[Any, Any]:
    return _torchvision("r3d_18", (1, 3, 16, 112, 112))


def _dcgan() -> tuple[Any, Any]:
    """The generator of 64 x 64 images from 100 numbers (Radford et al., 2016)."""
    import torch
    from torch import nn

    layers: list[Any] = []
    channels = (100, 512, 256, 128, 64)
    for number, (wide, narrow) in enumerate(zip(channels, channels[1:], strict=False)):
        stride, padding = (2, 1) if number else (1, 0)
        layers.append(nn.ConvTranspose2d(wide, narrow, 4, stride, padding, bias=False))
        layers += [nn.BatchNorm2d(narrow), nn.ReLU()]
    layers += [nn.ConvTranspose2d(channels[-1], 3, 4, 2, 1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers), torch.randn(1, channels[0], 1, 1)


def _perceptron() -> tuple[Any, Any]:
    import torch
    from torch import nn

    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 10)), torch.randn(8, 256)


def _bert(layers: int) -> tuple[Any, Any]:
    import torch
    from transformers import BertConfig, BertModel

    module = BertModel(BertConfig(num_hidden_layers=layers))
    return module, {"input_ids": torch.randint(0, 30000, (1, 128))}


def _gpt2() -> tuple[Any, Any]:
    import torch
    from transformers import GPT2Config, GPT2Model

    module = GPT2Model(GPT2Config(use_cache=False))
    return module, {"input_ids": torch.randint(0, 50000, (1, 64))}


_NETWORKS: dict[str, tuple[Any, ...]] = {
    "mobilenet-v2": (_mobilenet_v2, True),
    "bert-2": (_bert, False, 2),
    "bert-base": (_bert, False, 12),
    "resnet-50": (_resnet_50, True),
    "gpt2": (_gpt2, False),
    "inception-v3": (_inception_v3, True),
    "resnet-18-3d": (_resnet_18_3d, True),
    "dcgan": (_dcgan, True),
}
_SMALL: dict[str, tuple[Any, ...]] = {"perceptron": (_perceptron, False)}  # to try figures with
NETWORKS = tuple(_NETWORKS)
QUICK = ("mobilenet-v2", "bert-2")


def arrays_of(output: Any) -> list[Any]:
    """Return the tensors in the result of a network as numpy arrays, in order."""
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(output.to_tuple() if hasattr(output, "to_tuple") else output)
    arrays = [one.numpy(force=True) if isinstance(one, torch.Tensor) else one for one in leaves]
    return [one for one in arrays if one is not None]
