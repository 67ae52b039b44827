"""Doppler: runs language models on Vulkan devices from plans that are compiled ahead of time.

    import doppler

    with doppler.Model("m.plan") as model, model.sequence() as sequence:
        for piece in sequence.answer("Why is the sky blue?", max_tokens=200):
            print(piece, end="", flush=True)

docs/python.md is the guide.  Failures raise doppler.Error, with a code (doppler.Status) and the library's message.
"""
from ._library import Error, Status
from .compile import CompileFacts, compile  # pylint: disable=redefined-builtin
from .images import Image, Images
from .model import (Adapter, Counters, Device, Facts, Model, Ordering, PlanFacts, PlanTarget, ProgramFacts, devices, read_plan,
                    version)
from .sequence import (GREEDY, End, Generation, Logprob, Pooling, Sampling, Sequence, SpeculationCounts, Step, Token, Wants)
from .text import Chat, Decoder, Matcher, Shape, Text

__version__ = version()

__all__ = [
    "Adapter", "Chat", "CompileFacts", "Counters", "Decoder", "Device", "End", "Error", "Facts", "GREEDY", "Generation", "Image",
    "Images", "Logprob", "Matcher", "Model", "Ordering", "PlanFacts", "PlanTarget", "Pooling", "ProgramFacts", "Sampling",
    "Sequence", "Shape", "SpeculationCounts", "Status", "Step", "Text", "Token", "Wants", "compile", "devices", "read_plan",
    "version",
]
