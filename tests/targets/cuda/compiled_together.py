"""Compile many sources with nvcc at once, which takes less time than one after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from schedlang.targets.cuda import nvcc
from schedlang.targets.cuda.nvcc import CompileError, Resources

_PREAMBLE_END = "#endif"


def resources_of(sources: Sequence[str], arch: str) -> list[Mapping[str, Resources] | CompileError]:
    """Return the resources of the kernels of each source, or why it does not compile.

    Sources whose text agrees up to the kernels are compiled together: much of the time goes into
    headers.
    """
    groups: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        groups.setdefault(_split(source)[0], []).append(place)
    found: dict[int, Mapping[str, Resources] | CompileError] = {}
    for preamble, places in groups.items():
        try:
            found |= _compile_together(preamble, {place: sources[place] for place in places}, arch)
        except CompileError:
            found |= {place: _alone(sources[place], arch) for place in places}
    return [found[place] for place in range(len(sources))]


def _compile_together(
    preamble: str, sources: Mapping[int, str], arch: str
) -> dict[int, Mapping[str, Resources]]:
    texts, names = [preamble], {}
    for place, source in sources.items():
        text = _split(source)[1]
        for name in dict.fromkeys(nvcc.KERNEL.findall(text)):
            text = re.sub(rf"\b{name}\b", f"{name}_of_{place}", text)
            names[f"{name}_of_{place}"] = place, name
        texts.append(text)
    compiled = nvcc.compile_cubin("\n".join(texts), arch).resources
    found: dict[int, dict[str, Resources]] = {place: {} for place in sources}
    for unique, (place, name) in names.items():
        found[place][name] = compiled[unique]
    return dict(found)


def _alone(source: str, arch: str) -> Mapping[str, Resources] | CompileError:
    try:
        return nvcc.compile_cubin(source, arch).resources
    except CompileError as error:
        return error


def _split(source: str) -> tuple[str, str]:
    """Split what TVM generates into the part before the kernels, and the kernels."""
    first = nvcc.KERNEL.search(source)
    start = source.rfind(_PREAMBLE_END, 0, first.start() if first else len(source))
    end = start + len(_PREAMBLE_END) if start >= 0 else 0
    return source[:end], source[end:]
