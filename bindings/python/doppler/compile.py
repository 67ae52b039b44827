"""Compiles plans (libdopplerc, doppler/compile.h)."""
import ctypes
import dataclasses
from typing import Any, Callable, Optional, Sequence

from . import _abi
from ._interrupts import INTERRUPTS
from ._library import DIAG, Trap, call, compiler, log_in, progress_in, text, text_in, texts_in
from .handle import Path


@dataclasses.dataclass(frozen=True)
class CompileFacts:
    """Facts about a plan that was written."""

    target: str
    bytes: int
    device_bytes: int  #: device memory that the plan needs
    n_parts: int
    nearest: bool  #: no target file matches the device, so costs come from the most similar one


_TEXTS = ("target", "device", "quant", "imatrix", "kv", "act", "chunks", "rows", "kernel_path", "tuning", "parts", "part_memory",
          "control_layers", "size", "mmproj", "draft_head")
_LISTS = ("forces", "apart", "skips", "loras", "controls", "avoids")


def compile(model: Path, plan: Path, *, target: Optional[str] = None, device: Optional[str] = None,
            quant: Optional[str] = None, imatrix: Optional[Path] = None, kv: Optional[str] = None, act: Optional[str] = None,
            chunks: Optional[str] = None, rows: Optional[str] = None, kernel_path: Optional[Path] = None,
            tuning: Optional[Path] = None, parts: Optional[str] = None, part_memory: Optional[str] = None,
            forces: Sequence[str] = (), apart: Sequence[str] = (), skips: Sequence[str] = (), loras: Sequence[str] = (),
            controls: Sequence[str] = (), control_layers: Optional[str] = None, ctx: int = 0, sequences: int = 0,
            ctx_total: int = 0, threads: int = 0, embed: bool = False, adapters: int = 0, rank: int = 0,
            invariant: bool = False, external_weights: bool = False, split: bool = False,
            size: Optional[str] = None, mmproj: Optional[Path] = None, draft_head: Optional[Path] = None,
            draft_vocabulary: int = 0, model_weights: bool = False, avoids: Sequence[str] = (),
            progress: Optional[Callable[[str, int, int], Any]] = None,
            notes: Optional[Callable[[str], Any]] = None) -> CompileFacts:
    """Compiles a model (a Hugging Face directory, an RDRR directory, or a .gguf file) into a plan.  Options are those of dopplerc.
    progress(step, done, all) is called in the steps "kernels" and "weights"; returning False cancels the work with Status.CANCELLED.
    notes(line) is called with remarks about the plan."""
    given = dict(locals())
    trap = Trap()
    options = _abi.dop_compile_options(
        ctx=ctx, sequences=sequences, ctx_total=ctx_total, threads=threads, embed=embed, adapters=adapters, rank=rank,
        invariant=invariant, external_weights=external_weights, split=split,
        draft_vocabulary=draft_vocabulary, model_weights=model_weights, progress=progress_in(progress, trap), notes=log_in(notes))
    for name in _TEXTS:
        if given[name] is not None:
            setattr(options, name, text_in(given[name]))
    for name in _LISTS:
        listed, n = texts_in(given[name])
        setattr(options, name, listed)
        setattr(options, f"n_{name}", n)
    facts = _abi.dop_compile_facts()
    with INTERRUPTS:
        call("dop_compile", text_in(model), text_in(plan), ctypes.byref(options), DIAG, ctypes.byref(facts), trap=trap,
             library=compiler())
    return CompileFacts(text(facts.target), facts.bytes, facts.device_bytes, facts.n_parts, facts.nearest)
