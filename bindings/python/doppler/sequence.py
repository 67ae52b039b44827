"""Sequences, text generation, and steps (doppler/doppler.h, doppler/generation.h)."""
import contextlib
import ctypes
import dataclasses
import enum
import math
import numbers
import operator
import secrets
import weakref
from array import array
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence as Seq, Tuple, Union

from . import _abi
from ._interrupts import INTERRUPTS
from ._library import (DIAG, Drive, Error, Ids, Status, Trap, call, ids_in, instance_in, lib, mapping_in, measured, number_in, progress_in,
                       text_in, texts_in, token_in)
from .handle import Handle, Path
from .images import Image
from .text import Chat, Matcher, Messages, Shape

if TYPE_CHECKING:
    from .model import Adapter, Model


class Pooling(enum.IntEnum):
    """How an embedding is computed from hidden states."""

    MODEL = _abi.DOP_POOLING_MODEL  #: as stated in the model's files
    LAST = _abi.DOP_POOLING_LAST
    MEAN = _abi.DOP_POOLING_MEAN
    CLS = _abi.DOP_POOLING_CLS
    END = _abi.DOP_POOLING_END


class End(enum.IntEnum):
    """The reason why a text ended."""

    NOT_YET = _abi.DOP_END_NOT_YET
    ID = _abi.DOP_END_ID  #: an end-of-sequence token
    STOP_TEXT = _abi.DOP_END_STOP_TEXT
    SHAPE = _abi.DOP_END_CONSTRAINT  #: the shape permits no further token
    LENGTH = _abi.DOP_END_LENGTH  #: max_tokens reached, or the context is full


class Wants(enum.IntFlag):
    """Output requested for a row of a step."""

    NOTHING = 0
    LOGITS = _abi.DOP_WANTS_LOGITS
    PICK = _abi.DOP_WANTS_PICK
    DRAW = _abi.DOP_WANTS_DRAW
    UNCHECKED = _abi.DOP_WANTS_UNCHECKED


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Sampling parameters (dop_sampling).  Sampling() is greedy.  seed None: a new random seed each time."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_from: int = 0
    biases: Mapping[int, float] = dataclasses.field(default_factory=dict)
    logprobs: bool = False
    seed: Optional[int] = None

    def __post_init__(self) -> None:
        for name, least, most in (("temperature", 0, math.inf), ("top_p", 0, 1), ("min_p", 0, 1), ("repeat_penalty", 0, math.inf),
                                  ("presence_penalty", -math.inf, math.inf), ("frequency_penalty", -math.inf, math.inf)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real):
                raise TypeError(f"{name}: expected a number, not {type(value).__name__}")
            if float(value) < least or float(value) > most:
                raise ValueError(f"{name}: {value} is not between {least} and {most}")
        for name in ("top_k", "repeat_last_n", "penalty_from"):
            number_in(getattr(self, name), 0xFFFFFFFF)
        mapping_in(self.biases, "biases")

    @classmethod
    def _of(cls, c: _abi.dop_sampling) -> "Sampling":
        plain = {f.name: getattr(c, f.name) for f in dataclasses.fields(cls) if f.name not in ("biases", "seed")}
        plain.update(temperature=max(plain["temperature"], 0.0), top_p=min(max(plain["top_p"], 0.0), 1.0),
                     min_p=min(max(plain["min_p"], 0.0), 1.0))  # values in a model's files may be out of range
        return cls(**plain, biases={b.id: b.by for b in c.biases[: c.n_biases]}, seed=None)

    def _c(self) -> Tuple[_abi.dop_sampling, Any]:
        """Returns the C structure, and an object that must stay alive with it."""
        biases = (_abi.dop_bias * max(len(self.biases), 1))(*(_abi.dop_bias(i, by) for i, by in self.biases.items()))
        seed = secrets.randbits(64) if self.seed is None else operator.index(self.seed) & (1 << 64) - 1
        return _abi.dop_sampling(self.temperature, self.top_k, self.top_p, self.min_p, self.repeat_penalty,
                                 self.repeat_last_n, self.presence_penalty, self.frequency_penalty, self.penalty_from, biases,
                                 len(self.biases), self.logprobs, seed), biases

    def replace(self, **changes: Any) -> "Sampling":
        return dataclasses.replace(self, **changes)


GREEDY = Sampling()


@dataclasses.dataclass(frozen=True)
class Logprob:
    id: int
    logprob: float  #: natural logarithm of the probability, before biases, penalties and temperature


@dataclasses.dataclass(frozen=True)
class Token:
    """A generated token."""

    id: int
    text: str  #: text added by the token; "" while a character or stop text is incomplete
    end: End
    logprob: Optional[float] = None  #: with top_logprobs
    top: Tuple[Logprob, ...] = ()  #: the most likely ids, in descending order


@dataclasses.dataclass(frozen=True)
class SpeculationCounts:
    steps: int
    drafted: int
    accepted: int
    again: int


#: A custom sampler: picks an id from the logits (a view, valid until it returns) and the previous ids.
Sampler = Callable[[memoryview, List[int]], int]
#: A custom draft function: returns at most `most` ids that may follow the given ids.
Draft = Callable[[List[int], int], Ids]


def _lend(view: memoryview, use: Callable[[memoryview], Any]) -> Any:
    """Calls a function with a view of the library's memory, and invalidates the view afterwards."""
    try:
        return use(view)
    finally:
        with contextlib.suppress(BufferError):  # the function kept an array over it, at its own risk
            view.release()


_NO_SAMPLER: Any = ctypes.cast(None, _abi.dop_sampler_fn)  # type: ignore[arg-type]


class Sequence(Handle):
    """A list of tokens, and the states that a model computed from them: Model.sequence()."""

    _destroy = "dop_sequence_destroy"

    _model: "Model"

    def __init__(self, model: "Model", _fork_of: Optional["Sequence"] = None) -> None:
        self._model = model
        self._kept: Dict[str, Any] = {}  # objects that the library refers to
        self._trap: Trap = Trap() if _fork_of is None else _fork_of._trap  # for exceptions of samplers and draft functions
        self._drafts_for: Optional["weakref.ref[Sequence]"] = None
        handle = ctypes.c_void_p()
        with model._drive:
            if _fork_of is None:
                call("dop_sequence_create", model._get(), DIAG, ctypes.byref(handle))
            else:
                call("dop_sequence_fork", _fork_of._get(), DIAG, ctypes.byref(handle))
                self._kept = {name: kept for name, kept in _fork_of._kept.items() if name != "speculation"}
            self._handle = handle.value
            model._used_by(self)

    def _call(self, name: str, *arguments: Any, trap: Optional[Trap] = None) -> None:
        with self._model._drive:
            call(name, self._get(), *arguments, trap=trap)

    @property
    def model(self) -> "Model":
        return self._model

    @property
    def drafts(self) -> bool:
        """True if it drafts for another sequence (set_speculation).  If this one is closed, the other continues without drafts."""
        return self._speculating() is not None

    def _speculating(self) -> Optional["Sequence"]:
        found = None if self._drafts_for is None else self._drafts_for()
        return None if found is None or found.closed or found._model.closed else found

    def _driving(self) -> Drive:
        of = self._speculating()
        return self._model._drive if of is None else of._model._drive  # it also locks the draft model

    def _end(self) -> None:
        of = self._speculating()
        if of is not None and not self.closed:
            lib.dop_sequence_set_speculation(of._get(), None, None)
            of._kept.pop("speculation", None)
        self._drafts_for = None
        super()._end()

    @property
    def tokens(self) -> List[int]:
        """The tokens so far, fed and generated."""
        n = ctypes.c_size_t()
        with self._model._drive:
            pointer = lib.dop_sequence_tokens(self._get(), ctypes.byref(n))
            found: List[int] = pointer[: n.value] if n.value else []
        return found

    def __len__(self) -> int:
        n = ctypes.c_size_t()
        with self._model._drive:
            lib.dop_sequence_tokens(self._get(), ctypes.byref(n))
        return n.value

    # ---- writing a text --------------------------------------------------------------------------------------------

    def write(self, prompt: Union[str, Ids], *, max_tokens: int = 0, sampling: Optional[Sampling] = None, stops: Seq[str] = (),
              shape: Optional[Shape] = None, images: Seq[Image] = (), top_logprobs: Optional[int] = None, ignore_end: bool = False,
              keep_special: bool = False) -> "Generation":
        """Appends a prompt to the sequence and generates text: the result is an iterator of text.

        sampling: None: the model's settings (facts.sampling); Sampling(): greedy.  top_logprobs: report log-probabilities of each token
        and of this many of the most likely ids.  shape: constraint on the text (Text.schema, Text.grammar).  images: images at the
        model's marks in the prompt, or in front of it."""
        with_special = len(self) == 0
        images = [instance_in(image, Image, "images") for image in images]
        if images and not isinstance(prompt, str):
            raise TypeError(f"prompt: images need a str, not {type(prompt).__name__}")
        if isinstance(prompt, str) and images:
            prompt = self._with_images(self._model.images.mark(prompt, len(images)), images, with_special)
        elif isinstance(prompt, str):
            prompt = self._model.text.encode(prompt, add_special=with_special)
        return Generation(self, prompt, max_tokens, sampling, stops, shape, top_logprobs, ignore_end, keep_special)

    def answer(self, messages: Messages, *, tools: Optional[Seq[Mapping[str, Any]]] = None, chat: Optional[Chat] = None,
               template: Optional[Mapping[str, Any]] = None, images: Seq[Image] = (), stops: Seq[str] = (),
               **how: Any) -> "Generation":
        """Answers a whole conversation.  A prefix that the sequence already has is not computed again.

        messages: a text of the user, or a list of messages with "role" and "content".  images: images of the last message.  template:
        further variables of the chat template.  how: as in write()."""
        made = self._model.text.chat() if chat is None else instance_in(chat, Chat, "chat")
        more = dict(template or {})
        images = [instance_in(image, Image, "images") for image in images]
        try:
            if images:
                whole: List[Dict[str, Any]] = [{"role": "user", "content": messages}] if isinstance(messages, str) else [
                    dict(m) for m in (messages["messages"] if isinstance(messages, Mapping) else messages)]
                whole[-1]["content"] = self._model.images.mark(whole[-1]["content"], len(images))
                ids = self._with_images(made.render(whole, tools, **more), images, True)
            else:
                ids = made.ids(messages, tools, **more)
            stops = [*stops, *made.stops]
        finally:
            if chat is None:
                made.close()
        return self.write(ids[self.reuse(ids) :], stops=stops, **how)

    def _with_images(self, marked: str, images: Seq[Image], add_special: bool) -> List[int]:
        model = self._model
        for image in images:
            image.see()
        self._kept.setdefault("images", []).extend(images)  # keeps them alive: steps read their rows
        flags = _abi.DOP_TEXT_PARSE_SPECIAL | (_abi.DOP_TEXT_ADD_SPECIAL | _abi.DOP_TEXT_ONCE) * add_special
        return model.images._place(model.text._encode(model.images._expand(marked, images), flags), images)

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def feed(self, ids: Ids, *, progress: Optional[Callable[[str, int, int], Any]] = None) -> None:
        """Appends tokens.  progress("tokens", done, all) is called after each chunk; returning False ends the call with
        Status.CANCELLED, as if a step had failed."""
        self._fed("dop_sequence_feed", ids, (), progress, Trap())

    def _fed(self, name: str, ids: Ids, more: Tuple[Any, ...], progress: Optional[Callable[[str, int, int], Any]],
             trap: Trap) -> None:
        words = ids_in(ids)
        with self._model._drive, self._telling(progress, trap):
            call(name, self._get(), words, len(words), *more, DIAG, trap=trap)

    @contextlib.contextmanager
    def _telling(self, progress: Optional[Callable[[str, int, int], Any]], trap: Trap) -> Iterator[None]:
        """Reports progress to a function, and lets Python handle interrupts."""
        told = progress_in(progress, trap)
        lib.dop_sequence_set_progress(self._get(), ctypes.byref(told))
        try:
            yield
        finally:
            lib.dop_sequence_set_progress(self._get(), None)

    def reuse(self, ids: Ids) -> int:
        """Rewinds to the longest prefix of ids whose states are available.  Returns its length; the caller feeds the rest."""
        found = ctypes.c_size_t()
        self._call("dop_sequence_reuse", ids_in(ids), len(ids), DIAG, ctypes.byref(found))
        return found.value

    def next(self) -> int:
        """Samples the next token and appends it."""
        token = ctypes.c_uint32()
        self._call("dop_sequence_next", DIAG, ctypes.byref(token), trap=self._trap)
        return token.value

    def logprobs(self, n_top: int = 0) -> List[Logprob]:
        """Returns log-probabilities for the last token of next(), with Sampling.logprobs: its own, then those of the most likely ids."""
        own, top = _abi.dop_logprob(), (_abi.dop_logprob * max(number_in(n_top, self._model.facts.vocab), 1))()
        self._call("dop_sequence_logprobs", n_top, DIAG, ctypes.byref(own), top)
        return [Logprob(l.id, l.logprob) for l in (own, *top[:n_top])]

    def expect(self, n_tokens: int) -> None:
        """Announces that at most n_tokens more tokens will be generated."""
        with self._model._drive:
            lib.dop_sequence_expect(self._get(), number_in(n_tokens, 0xFFFFFFFF))

    def score(self, ids: Ids, each: Optional[Callable[[int, memoryview], Any]] = None, *,
              progress: Optional[Callable[[str, int, int], Any]] = None) -> memoryview:
        """Appends tokens like feed(), and returns their logits, floats of shape (tokens, vocab).  With each(first, rows), that function
        receives them in chunks, as views that are valid until it returns, and the result is empty."""
        vocab = self._model.facts.vocab
        rows = bytearray() if each is not None else bytearray(4 * vocab * len(ids))
        trap = Trap()

        def take(_user: Any, first: int, n: int, logits: Any, _diag: Any) -> int:
            piece = (ctypes.c_float * (n * vocab)).from_address(ctypes.addressof(logits.contents))
            view = memoryview(piece).cast("B")
            if each is None:
                rows[4 * vocab * first : 4 * vocab * (first + n)] = view
            else:
                _lend(view.cast("f", (n, vocab)), lambda lent: each(first, lent))  # type: ignore[misc]
            return _abi.DOP_OK

        fn = _abi.dop_logits_fn(trap.around(take, _abi.DOP_E_CANCELLED))
        self._fed("dop_sequence_score", ids, (fn, None), progress, trap)
        return memoryview(rows).cast("f", (len(ids), vocab)) if rows else memoryview(rows)

    def embed(self, ids: Ids, pooling: Pooling = Pooling.MODEL) -> "array[float]":
        """Appends tokens, and returns their embedding."""
        vector = array("f", bytes(4 * max(self._model.embedding_size, 1)))
        into = (ctypes.c_float * len(vector)).from_buffer(vector)
        self._call("dop_sequence_embed", ids_in(ids), len(ids), int(Pooling(pooling)), DIAG, into)
        del into
        return vector

    # ---- rewinding ----------------------------------------------------------------------------------------------

    def rewind(self, n_tokens: int) -> None:
        """Removes everything after the first n_tokens."""
        self._call("dop_sequence_rewind", n_tokens, DIAG)

    def cut(self, first: int, n: int) -> None:
        """Removes n tokens, beginning at position `first`."""
        self._call("dop_sequence_cut", first, n, DIAG)

    def fork(self) -> "Sequence":
        """Returns a new sequence with the same tokens, states and sampling."""
        return Sequence(self._model, self)

    def copy_from(self, other: "Sequence") -> None:
        self._call("dop_sequence_copy", instance_in(other, Sequence, "other")._get(), DIAG)
        self._kept.setdefault("images", []).extend(other._kept.get("images", ()))

    def end_turn(self) -> None:
        self._call("dop_sequence_end_turn", DIAG)

    def checkpoint(self) -> int:
        """Returns a handle with which restore() brings this or another sequence of the model to this state (Model(checkpoints=...))."""
        made = ctypes.c_uint64()
        self._call("dop_sequence_checkpoint", DIAG, ctypes.byref(made))
        return made.value

    def restore(self, checkpoint: int) -> None:
        self._call("dop_sequence_restore", checkpoint, DIAG)

    def save(self, path: Path, note: bytes = b"") -> None:
        """Writes tokens and states to a file, with a note."""
        raw = bytes(memoryview(note))
        self._call("dop_sequence_save", text_in(path), raw, len(raw), DIAG)

    def load(self, path: Path) -> bytes:
        """Restores tokens and states written by save(), and returns the note."""
        note, n = ctypes.c_void_p(), ctypes.c_size_t()
        self._call("dop_sequence_load", text_in(path), DIAG, ctypes.byref(note), ctypes.byref(n))
        try:
            return ctypes.string_at(note, n.value) if note else b""
        finally:
            lib.dop_free(note)

    # ---- sampling --------------------------------------------------------------------------------------

    def set_sampling(self, sampling: Sampling) -> None:
        made, biases = instance_in(sampling, Sampling, "sampling")._c()
        with self._model._drive:
            lib.dop_sequence_set_sampling(self._get(), ctypes.byref(made))
            self._kept["sampling"] = biases

    def set_sampler(self, sampler: Optional[Sampler]) -> None:
        """Sets a custom sampler; None: use the sampling parameters again."""
        if sampler is not None and not callable(sampler):
            raise TypeError(f"sampler: expected a function, not {type(sampler).__name__}")

        def pick(_user: Any, logits: Any, vocab: int, tokens: Any, n: int, _diag: Any, out: Any) -> int:
            view = memoryview((ctypes.c_float * vocab).from_address(ctypes.addressof(logits.contents))).cast("B").cast("f")
            out[0] = _lend(view, lambda lent: token_in(sampler(lent, tokens[:n])))  # type: ignore[misc]
            return _abi.DOP_OK

        fn = _abi.dop_sampler_fn(self._trap.around(pick, _abi.DOP_E_CANCELLED)) if sampler is not None else _NO_SAMPLER
        with self._model._drive:
            lib.dop_sequence_set_sampler(self._get(), fn, None)
            self._kept["sampler"] = fn

    def set_mask(self, allowed: Union[Seq[int], None]) -> None:
        """Restricts sampling to these ids; None: no restriction."""
        words = None
        if allowed is not None:
            words = (ctypes.c_uint32 * ((self._model.facts.vocab + 31) // 32))()
            for token in allowed:
                if 0 <= token < self._model.facts.vocab:
                    words[token // 32] |= 1 << token % 32
        self._call("dop_sequence_set_mask", words, DIAG)

    def set_adapters(self, uses: Mapping["Adapter", float]) -> None:
        """Sets the adapters for the following tokens, each with a scale factor."""
        numbered = [(getattr(adapter, "number", adapter), by)
                    for adapter, by in mapping_in(uses, "uses").items()]
        rows = (_abi.dop_adapter_use * max(len(uses), 1))(*(_abi.dop_adapter_use(*use) for use in numbered))
        self._call("dop_sequence_set_adapters", rows, len(uses), DIAG)

    def set_speculation(self, *, ngram: int = 0, draft: Optional["Sequence"] = None, fn: Optional[Draft] = None,
                        most: int = 0, own: bool = False) -> None:
        """Enables speculative decoding in next() and write().  Drafts come from earlier occurrences of the last `ngram` tokens, from a
        sequence of a draft model, from a function, or from the model's own draft layer (facts.drafts).  Without arguments: disables it."""

        def propose(_user: Any, tokens: Any, n: int, limit: int, _diag: Any, out: Any, out_n: Any) -> int:
            proposed = list(fn(tokens[:n], limit))[:limit]  # type: ignore[misc]
            for at, token in enumerate(proposed):
                out[at] = token_in(token)
            out_n[0] = len(proposed)
            return _abi.DOP_OK

        if draft is not None:
            instance_in(draft, Sequence, "draft")
        if fn is not None and not callable(fn):
            raise TypeError(f"fn: expected a function, not {type(fn).__name__}")
        how = None
        if ngram or draft is not None or fn is not None or own:
            how = _abi.dop_speculation(ngram=ngram, draft=None if draft is None else draft._get(), most=most, own=own)
            if fn is not None:
                how.fn = _abi.dop_draft_fn(self._trap.around(propose, _abi.DOP_E_CANCELLED))
        if draft is not None and draft._model is not self._model:
            self._model._drive.drafts.add(draft._model._drive)
        self._call("dop_sequence_set_speculation", None if how is None else ctypes.byref(how), DIAG)
        former = self._kept.get("speculation", (None, None))[1]
        if former is not None:
            former._drafts_for = None
        if draft is not None:
            draft._drafts_for = weakref.ref(self)
        self._kept["speculation"] = (how, draft)

    @property
    def speculation_counts(self) -> SpeculationCounts:
        with self._model._drive:
            c = lib.dop_sequence_speculation_counts(self._get())
        return SpeculationCounts(c.steps, c.drafted, c.accepted, c.again)


class Generation(Handle):
    """A text that a sequence generates: an iterator of pieces of text, or of tokens with tokens()."""

    _destroy = "dop_generation_destroy"
    _model: "Model"

    def __init__(self, sequence: Sequence, ids: Ids, max_tokens: int, sampling: Optional[Sampling], stops: Seq[str],
                 shape: Optional[Shape], top_logprobs: Optional[int], ignore_end: bool, keep_special: bool) -> None:
        if max_tokens < 0:
            raise ValueError("max_tokens is 0 (as many as fit) or more")
        stop_list, n_stops = texts_in(stops)
        model = sequence._model
        self._model, self._sequence = model, sequence
        self._trap = sequence._trap
        wanted = model.facts.sampling if sampling is None else instance_in(sampling, Sampling, "sampling")
        if top_logprobs is not None:
            wanted = wanted.replace(logprobs=True)
        c, biases = wanted._c()
        self._top = number_in(top_logprobs or 0, model.facts.vocab)
        self._logprobs = wanted.logprobs
        self._matcher = Matcher(shape) if shape is not None else None
        # text and matcher must stay alive until the end
        text = model.text if model.facts.has_text else None
        options = _abi.dop_generation_options(
            text=text._get() if text is not None else None, sampling=ctypes.pointer(c),
            matcher=self._matcher._get() if self._matcher is not None else None, stops=stop_list, n_stops=n_stops,
            max_tokens=max_tokens, n_top=self._top, ignore_end=ignore_end, keep_special=keep_special)
        self._lent = (text, c, biases)
        self._token = _abi.dop_generation_token()
        self.end = End.NOT_YET  #: reason why the text ended
        self.ids: List[int] = []  #: ids of the tokens so far
        handle = ctypes.c_void_p()
        with model._drive:
            call("dop_generation_create", sequence._get(), ctypes.byref(options), DIAG, ctypes.byref(handle))
            self._handle = handle.value
            sequence._kept["sampling"] = self._lent
            for used in (sequence, text, self._matcher):
                if used is not None:
                    used._used_by(self)
        words = ids_in(ids)
        with model._drive, sequence._telling(None, self._trap):
            call("dop_generation_read", self._get(), words, len(words), DIAG, trap=self._trap)

    def _take(self, name: str) -> Token:
        with self._model._drive:
            call(name, self._get(), DIAG, ctypes.byref(self._token), trap=self._trap)
            c = self._token
            self.end = End(c.end)
            added = measured(c.text, c.len)
            rows = c.logprobs[: 1 + self._top] if self._logprobs and c.logprobs else []
            token = Token(c.id, added, self.end, rows[0].logprob if rows else None,
                          tuple(Logprob(r.id, r.logprob) for r in rows[1:]))
        return token

    def tokens(self) -> Iterator[Token]:
        """Yields the tokens as they are generated; the last one has an end."""
        while self.end == End.NOT_YET:
            token = self._take("dop_generation_next")
            if token.end != End.ID:
                self.ids.append(token.id)
            yield token

    def __iter__(self) -> "Generation":
        return self

    def __next__(self) -> str:
        for token in self.tokens():
            if token.text:
                return token.text
        raise StopIteration

    def stop(self) -> str:
        """Ends the text here, and returns the part that was held back."""
        if self.end != End.NOT_YET:
            return ""
        rest = self._take("dop_generation_stop").text
        self.end = End.LENGTH if self.end == End.NOT_YET else self.end
        return rest

    @property
    def text(self) -> str:
        """The whole text so far."""
        n = ctypes.c_size_t()
        with self._model._drive:
            return measured(lib.dop_generation_text(self._get(), ctypes.byref(n)), n.value)

    def read(self) -> str:
        """Generates to the end, and returns the whole text."""
        for _ in self:
            pass
        return self.text


class Step:
    """A step of rows of several sequences: Model.step()."""

    def __init__(self, model: "Model", rows: Seq[Tuple[Sequence, int, Wants]]) -> None:
        self._model = model
        made = (_abi.dop_step_row * max(len(rows), 1))()
        for at, (sequence, token, wants) in enumerate(rows):
            made[at] = _abi.dop_step_row(instance_in(sequence, Sequence, "rows")._get(), token_in(token), int(Wants(wants)))
        with model._drive:
            call("dop_step_run", model._get(), made, len(rows), DIAG)
        self._open = True
        self._n = len(rows)

    def _row(self, row: int) -> int:
        if not self._open:
            raise Error(Status.USAGE, "the step has ended")
        if not 0 <= row < self._n:
            raise Error(Status.INPUT, f"the step has no row {row}")
        return self._model._get()

    def logits(self, row: int) -> memoryview:
        """Returns a copy of the logits of a row that requested them."""
        with self._model._drive:
            pointer = lib.dop_step_logits(self._row(row), row)
            if not pointer:
                raise Error(Status.USAGE, f"row {row} wanted no logits")
            return memoryview(ctypes.string_at(pointer, 4 * self._model.facts.vocab)).cast("f")

    def pick(self, row: int) -> int:
        """Returns the most likely id of a row that requested a pick."""
        with self._model._drive:
            token = int(lib.dop_step_pick(self._row(row), row))
        if token == 0xFFFFFFFF:
            raise Error(Status.USAGE, f"row {row} wanted no pick")
        return token

    def sample(self, row: int) -> int:
        """Samples an id with the sampling parameters of the row's sequence."""
        token = ctypes.c_uint32()
        with self._model._drive:
            call("dop_step_sample", self._row(row), row, DIAG, ctypes.byref(token))
        return token.value

    def commit(self) -> None:
        self._finish("dop_step_commit")

    def rollback(self) -> None:
        self._finish("dop_step_rollback")

    def _finish(self, name: str) -> None:
        with self._model._drive:
            if self._open and not self._model.closed:
                getattr(lib, name)(self._model._get())
            self._open = False

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()
