"""Devices, plans and models (doppler/doppler.h)."""
import ctypes
import dataclasses
import enum
import math
import os
import weakref
from array import array
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence as Seq, Tuple, Union

from . import _abi
from ._interrupts import INTERRUPTS
from ._library import (DIAG, Drive, Error, Ids, Status, Trap, call, ids_in, instance_in, lib, list_in, log_in, mapping_in, names_in, number_in,
                       progress_in, text, text_in)
from .handle import Handle, Path
from .images import Images
from .sequence import Pooling, Sampling, Sequence, Step, Wants
from .text import Text

Vector = "array[float]"


class Ordering(enum.IntEnum):
    """How the dispatches of a decode step are ordered."""

    AUTO = _abi.DOP_ORDERING_AUTO
    BARRIERS = _abi.DOP_ORDERING_BARRIERS
    PERSISTENT = _abi.DOP_ORDERING_PERSISTENT


@dataclasses.dataclass(frozen=True)
class Device:
    """A Vulkan device."""

    number: int
    name: str
    driver: str
    missing: str  #: required features that it lacks; "": none
    memory: int  #: bytes of device-local memory
    software: bool  #: software driver on the host's CPU
    line: str  #: a one-line summary with the device's capabilities


@dataclasses.dataclass(frozen=True)
class PlanTarget:
    name: str
    device_bytes: int  #: device memory that the plan needs with this target


@dataclasses.dataclass(frozen=True)
class PlanFacts:
    """Facts about a plan that need no device."""

    name: str
    family: str
    quant: str
    made: str  #: compile options, as JSON; "": not known
    digest: int
    bytes: int  #: size, including external weight files
    vocab: int
    ctx: int
    ctx_trained: int
    n_layers: int
    n_sequences: int
    page: int
    n_pages: int
    part: int
    n_parts: int
    has_text: bool
    targets: Tuple[PlanTarget, ...]


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts about an open model."""

    name: str
    family: str
    quant: str
    device: str
    driver: str
    target: str
    software: bool
    digest: int
    vocab: int
    ctx: int
    ctx_trained: int
    n_layers: int
    n_sequences: int
    page: int
    n_pages: int
    chunks: Tuple[int, ...]  #: chunk sizes of prefill; multiples of the last one are fastest
    has_text: bool
    bos_id: int
    end_ids: Tuple[int, ...]
    sampling: Sampling  #: the model's own settings
    device_bytes: int
    load_ms: float
    drafts: bool  #: the model has its own draft layer


@dataclasses.dataclass(frozen=True)
class Counters:
    allocations: int
    recordings: int
    submissions: int
    tokens_reused: int
    tokens_saved: int
    tokens_loaded: int
    checkpoints_made: int
    checkpoints_used: int
    cache_hits: int
    file_hits: int
    files_written: int
    files_removed: int
    pages_copied: int
    waited_ms: float
    steps_ahead: int
    rows_dropped: int
    checkpoints: int
    checkpoint_bytes: int
    cache_bytes: int
    file_bytes: int
    pages_free: int


@dataclasses.dataclass(frozen=True)
class ProgramFacts:
    """A program of a plan: "encode" (texts to vectors or scores) or "image" (images to features)."""

    name: str
    width: int
    max_rows: int
    n_types: int
    classes: int
    pooling: Pooling
    normalized: bool
    merge: int
    class_row: bool


def _read(struct: ctypes.Structure, kind: Any, **given: Any) -> Any:
    """Copies the members of a structure to a dataclass with the same names."""
    for field in dataclasses.fields(kind):
        if field.name not in given:
            value = getattr(struct, field.name)
            given[field.name] = text(value) if value is None or isinstance(value, bytes) else value
    return kind(**given)


def version() -> str:
    """Returns the library's release."""
    return text(lib.dop_version())


def devices() -> List[Device]:
    """Returns the Vulkan devices, in the order of their numbers."""
    found: List[Device] = []
    trap = Trap()

    def take(_user: Any, facts: Any, _diag: Any) -> int:
        found.append(_read(facts[0], Device))
        return _abi.DOP_OK

    fn = _abi.dop_device_fn(trap.around(take, _abi.DOP_E_CANCELLED))
    with INTERRUPTS:
        call("dop_devices", fn, None, DIAG, trap=trap)
    return found


def read_plan(plan: Path, part: int = 0) -> PlanFacts:
    """Reads a plan's facts.  Needs no device."""
    pointer = ctypes.POINTER(_abi.dop_plan_facts)()
    call("dop_plan_read", text_in(plan), part, DIAG, ctypes.byref(pointer))
    try:
        facts = pointer[0]
        targets = tuple(_read(target, PlanTarget) for target in facts.targets[: facts.n_targets])
        found: PlanFacts = _read(facts, PlanFacts, targets=targets)
        return found
    finally:
        lib.dop_free(ctypes.cast(pointer, ctypes.c_void_p))


class Adapter(NamedTuple):
    """An adapter (LoRA) of a model."""

    number: int
    path: str


class Model(Handle):
    """A plan that is open on a device.

    plan: a path, the bytes of a plan, or a file descriptor.  Options are those of dop_open_options (doppler/doppler.h), with its
    defaults.  progress(step, done, all) is called in the steps "kernels" and "weights"; returning False cancels opening with
    Status.CANCELLED.  accept(device) may refuse the chosen device by returning False.

    Threads may share a model: calls run one at a time."""

    _destroy = "dop_model_close"

    def __init__(self, plan: Union[Path, bytes, bytearray, memoryview, int], *, device: Union[str, int, None] = None,
                 nth_device: int = 0, cache_dir: Optional[Path] = None, threads: int = 0, max_chunk: int = 0,
                 steps_ahead: int = 0, steps_per_submit: int = 0, checkpoints: int = 0, checkpoint_bytes: int = 0,
                 cache_memory: int = 0, prompt_cache: Optional[Path] = None, prompt_cache_bytes: int = 0,
                 separate_memory: bool = False, first_tokens: int = 0, no_scoring: bool = False,
                 ordering: Ordering = Ordering.AUTO, timeout_s: float = 0.0,
                 accept: Optional[Callable[[Device], Any]] = None,
                 progress: Optional[Callable[[str, int, int], Any]] = None,
                 log: Optional[Callable[[str], Any]] = None, submit_ms: float = 0.0,
                 refused: Optional[Callable[[str], Any]] = None, on_demand: bool = False, no_steps: bool = False) -> None:
        trap = Trap()
        self._drive = Drive()
        self._text: Optional[Text] = None
        self._images: Optional[Images] = None
        options = _abi.dop_open_options(
            device=None if device is None else text_in(str(device)), nth_device=nth_device,
            cache_dir=None if cache_dir is None else text_in(cache_dir), threads=threads, max_chunk=max_chunk,
            steps_ahead=steps_ahead, steps_per_submit=steps_per_submit, checkpoints=checkpoints,
            checkpoint_bytes=checkpoint_bytes, cache_memory=cache_memory,
            prompt_cache=None if prompt_cache is None else text_in(prompt_cache), prompt_cache_bytes=prompt_cache_bytes,
            separate_memory=separate_memory, first_tokens=first_tokens, no_scoring=no_scoring, ordering=int(Ordering(ordering)),
            timeout_s=timeout_s, progress=progress_in(progress, trap), log=log_in(log), submit_ms=submit_ms,
            refused=names_in(refused), on_demand=on_demand, no_steps=no_steps)
        if accept is not None:
            wanted = accept
            options.chosen = _abi.dop_device_fn(trap.around(
                lambda _user, facts, _diag: _abi.DOP_OK if wanted(_read(facts[0], Device)) is not False
                else _abi.DOP_E_CANCELLED, _abi.DOP_E_CANCELLED))
        self._options = options  # keeps callbacks alive: the log may be called until the model is closed
        handle = ctypes.c_void_p()
        with INTERRUPTS:
            self._open(plan, options, handle, trap)
            self._handle = handle.value
        facts = _abi.dop_facts()
        lib.dop_model_facts(self._handle, ctypes.byref(facts))
        self.facts: Facts = _read(facts, Facts, chunks=tuple(facts.chunks[: facts.n_chunks]),
                                  end_ids=tuple(facts.end_ids[: facts.n_end_ids]),
                                  sampling=Sampling._of(facts.sampling))

    def _open(self, plan: Union[Path, bytes, bytearray, memoryview, int], options: _abi.dop_open_options,
              handle: ctypes.c_void_p, trap: Trap) -> None:
        if isinstance(plan, int):
            call("dop_model_open_fd", number_in(plan, (1 << 31) - 1), ctypes.byref(options), DIAG, ctypes.byref(handle), trap=trap)
        elif isinstance(plan, (bytes, bytearray, memoryview)):
            size = len(plan) if not isinstance(plan, memoryview) else plan.nbytes
            self._memory = ctypes.create_string_buffer(size + 16)
            start = -ctypes.addressof(self._memory) % 16  # the library requires 16-byte alignment
            ctypes.memmove(ctypes.addressof(self._memory) + start, bytes(plan), size)
            call("dop_model_open_memory", ctypes.addressof(self._memory) + start, size, ctypes.byref(options), DIAG,
                 ctypes.byref(handle), trap=trap)
        else:
            call("dop_model_open", text_in(plan), ctypes.byref(options), DIAG, ctypes.byref(handle), trap=trap)

    def _driving(self) -> Drive:
        return self._drive

    def close(self) -> None:
        """Closes the model with its sequences, texts and images.  No other thread may use its texts any more."""
        if self._handle is not None and self._drive.forked:
            self._handle = None  # the parent process owns it
            return
        for user in list(self._users or ()):
            if isinstance(user, Sequence) and user.drafts:
                user.close()
        super().close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<doppler.Model {self.facts.name!r} on {self.facts.device!r}{', closed' if self.closed else ''}>"

    @property
    def counters(self) -> Counters:
        with self._drive:
            found: Counters = _read(lib.dop_model_counters(self._get()), Counters)
            return found

    @property
    def ordering(self) -> str:
        with self._drive:
            return text(lib.dop_model_ordering(self._get()))

    @property
    def text(self) -> Text:
        """The plan's tokenizer.  Raises Error if it has none."""
        with self._drive:
            if self._text is None or self._text.closed:
                self._text = Text(_model=self)
                self._used_by(self._text)
            return self._text

    @property
    def images(self) -> Images:
        """The model's image preprocessor.  Raises Error if the model accepts no images."""
        with self._drive:
            if self._images is None or self._images.closed:
                self._images = Images(self)
                self._used_by(self._images)
            return self._images

    def sequence(self) -> Sequence:
        """Returns a new, empty sequence.  At most facts.n_sequences may exist."""
        return Sequence(self)

    # ---- vectors and scores ----------------------------------------------------------------------------------------

    @property
    def embedding_size(self) -> int:
        """Length of an embedding, or number of scored classes; 0: the plan supports neither (dopplerc --embed)."""
        return int(lib.dop_model_embedding_size(self._get()))

    @property
    def programs(self) -> Dict[str, ProgramFacts]:
        """The programs of the plan, except the one that advances sequences."""
        found: Dict[str, ProgramFacts] = {}
        facts = _abi.dop_program_facts()
        with self._drive:
            while lib.dop_model_program(self._get(), len(found), ctypes.byref(facts)):
                program: ProgramFacts = _read(facts, ProgramFacts, pooling=Pooling(facts.pooling))
                found[program.name] = program
        return found

    def embed(self, texts: Union[str, Seq[Union[str, Ids]]], *, pooling: Pooling = Pooling.MODEL,
              prompt: Optional[str] = None) -> List["array[float]"]:
        """Returns an embedding, or class scores, for each text or list of ids.  prompt: prefix of each text; None: the model's
        default (Text.prompt returns the others)."""
        texts = list_in(texts)
        if prompt is None and any(isinstance(t, str) for t in texts):
            prompt = self.text.prompt()
        lists = [(self.text.encode((prompt or "") + t), None) if isinstance(t, str) else (t, None) for t in texts]
        return self._embed(lists, pooling)

    def _embed(self, lists: Seq[Tuple[Ids, Optional[int]]], pooling: Pooling) -> List["array[float]"]:
        width = self.embedding_size
        if width == 0:
            raise Error(Status.INPUT, "the plan gives no hidden states: compile it with `embed`")
        kept = [ids_in(ids) for ids, _ in lists]
        tokens = (_abi.dop_token_text * max(len(kept), 1))()
        for at, (ids, second) in enumerate(lists):
            tokens[at] = _abi.dop_token_text(kept[at], len(ids), len(ids) if second is None else second)
        vectors = array("f", bytes(4 * max(width * len(lists), 1)))
        into = (ctypes.c_float * len(vectors)).from_buffer(vectors)
        with self._drive:
            call("dop_model_embed", self._get(), tokens, len(lists), int(Pooling(pooling)), DIAG, into)
        del into
        return [vectors[at * width : (at + 1) * width] for at in range(len(lists))]

    def relevance(self, query: str, texts: Seq[str]) -> List[float]:
        """Returns the relevance of each text for the query: a cross-encoder's score, or the cosine similarity of embeddings."""
        texts = list_in(texts)
        encode = self.programs.get("encode")
        if encode is not None and encode.classes:
            scores = self._embed([self.text.encode_pair(query, t) for t in texts], Pooling.MODEL)
            return [float(lib.dop_relevance((ctypes.c_float * len(s)).from_buffer(s), len(s))) for s in scores]
        of_query = self.embed([query], prompt=self.text.search_prompt(True))[0]
        size = math.sqrt(sum(a * a for a in of_query)) or 1.0
        return [sum(a * b for a, b in zip(of_query, v)) / size / (math.sqrt(sum(b * b for b in v)) or 1.0)
                for v in self.embed(texts, prompt=self.text.search_prompt(False))]

    def run(self, program: str, inputs: Mapping[str, Any], outputs: Mapping[str, int]) -> Dict[str, "array[float]"]:
        """Runs a program (dop_program_run).  inputs: arrays of 32-bit words, or lists of numbers.  outputs: number of values of each
        output to return."""

        def value(name: str, data: Any) -> Tuple[Any, Any]:
            if isinstance(data, (list, tuple)):
                data = array("f" if any(isinstance(v, float) for v in data) else "I", data)
            view = memoryview(data)
            if view.itemsize != 4 or not view.c_contiguous:
                raise Error(Status.INPUT, f"{name} is no array of 32-bit words")
            raw = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
            return _abi.dop_value(text_in(name), ctypes.cast(raw, ctypes.c_void_p), view.nbytes // 4), raw

        made = {name: array("f", bytes(4 * max(n, 1))) for name, n in mapping_in(outputs, "outputs").items()}
        given = [value(name, data) for name, data in mapping_in(inputs, "inputs").items()]
        wanted = []
        for name, n in outputs.items():
            into = (ctypes.c_float * max(n, 1)).from_buffer(made[name])
            wanted.append((_abi.dop_value(text_in(name), ctypes.cast(into, ctypes.c_void_p), n), into))
        with self._drive:
            call("dop_program_run", self._get(), text_in(program),
                 (_abi.dop_value * max(len(given), 1))(*(v for v, _ in given)), len(given),
                 (_abi.dop_value * max(len(wanted), 1))(*(v for v, _ in wanted)), len(wanted), DIAG)
        del wanted
        return made

    # ---- adapters ---------------------------------------------------------------------------------------------------

    @property
    def adapter_room(self) -> int:
        """Maximum number of loaded adapters (dopplerc --adapters)."""
        return int(lib.dop_model_adapter_room(self._get()))

    @property
    def adapters(self) -> List[Adapter]:
        """The loaded adapters."""
        with self._drive:
            paths = [(at, lib.dop_model_adapter(self._get(), at)) for at in range(self.adapter_room)]
        return [Adapter(at, os.fsdecode(path)) for at, path in paths if path is not None]

    def load_adapter(self, path: Path, layers: Optional[Tuple[int, int]] = None) -> Adapter:
        """Loads a PEFT directory, its .safetensors file, a GGUF adapter or a control vector, for Sequence.set_adapters.  layers: the
        first and last layer after which a control vector is added."""
        number = ctypes.c_uint32()
        with self._drive:
            if layers:
                call("dop_control_vector_load", self._get(), text_in(path), *layers, DIAG, ctypes.byref(number))
            else:
                call("dop_adapter_load", self._get(), text_in(path), DIAG, ctypes.byref(number))
        return Adapter(number.value, os.fsdecode(path))

    def unload_adapter(self, adapter: Adapter) -> None:
        with self._drive:
            call("dop_adapter_unload", self._get(), instance_in(adapter, Adapter, "adapter").number, DIAG)

    # ---- steps ------------------------------------------------------------------------------------------------------

    def step(self, rows: Seq[Tuple[Sequence, int, Wants]]) -> Step:
        """Runs rows of any sequences in one step: (sequence, token id, requested output).  `with` commits the step, or rolls it back
        after an exception."""
        return Step(self, rows)

    def wants(self, sampling: Sampling) -> Wants:
        """Returns the output to request for the last row of a sequence with this sampling, so that the device samples if it can."""
        made, kept = instance_in(sampling, Sampling, "sampling")._c()
        with self._drive:
            wanted = Wants(lib.dop_model_wants(self._get(), ctypes.byref(made)))
        del kept
        return wanted

    def max_rows(self, inner_rows_want: bool = False) -> int:
        return int(lib.dop_model_max_rows(self._get(), inner_rows_want))

    @property
    def max_rows_of_several(self) -> int:
        return int(lib.dop_model_max_rows_of_several(self._get()))

    def drop_checkpoint(self, checkpoint: int) -> None:
        with self._drive:
            lib.dop_model_drop_checkpoint(self._get(), number_in(checkpoint, (1 << 64) - 1))
