"""Tokenizers, chat formats, and constraints on answers (doppler/text.h, doppler/constraint.h)."""
import ctypes
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _abi
from ._library import (DIAG, Error, Ids, Status, call, ids_in, instance_in, lib, mapping_in, measured, string_in, take_ids, take_text, text,
                       text_in, token_in)
from .handle import Handle, Path

Messages = Union[str, Sequence[Mapping[str, Any]], Mapping[str, Any]]


def _schema_in(schema: Any) -> str:
    """Returns a JSON schema as JSON text."""
    if not isinstance(schema, (str, Mapping, bool)):
        raise TypeError(f"schema: expected str, a mapping or bool, not {type(schema).__name__}")
    return schema if isinstance(schema, str) else json.dumps(schema)


class Text(Handle):
    """A plan's tokenizer.  Any number of threads may use one.  Model.text is that of an open model; Text(path) needs no
    device."""

    _destroy = "dop_text_destroy"

    def __init__(self, plan: Optional[Path] = None, *, _model: Any = None) -> None:
        handle = ctypes.c_void_p()
        if _model is not None:
            call("dop_text_of_model", _model._get(), DIAG, ctypes.byref(handle))
        else:
            call("dop_text_open", text_in(plan or ""), DIAG, ctypes.byref(handle))
        self._handle = handle.value
        self._model = _model

    @property
    def vocab(self) -> int:
        """The size of the vocabulary: the largest id plus one."""
        return int(lib.dop_text_vocab(self._get()))

    @property
    def adds_bos(self) -> bool:
        return bool(lib.dop_text_adds_bos(self._get()))

    @property
    def has_chat(self) -> bool:
        return bool(lib.dop_text_has_chat(self._get()))

    def encode(self, string: str, *, add_special: bool = True, parse_special: bool = True, once: bool = True) -> List[int]:
        """Returns the ids of a text.  add_special: add the special tokens that the model puts around a text (BOS).  parse_special:
        recognize special tokens written in the text; use False for untrusted text.  once: do not add special tokens that the
        text already has."""
        flags = (_abi.DOP_TEXT_ADD_SPECIAL * add_special | _abi.DOP_TEXT_PARSE_SPECIAL * parse_special |
                 _abi.DOP_TEXT_ONCE * (once and add_special))
        return self._encode(string_in(string, "string"), flags)

    def _encode(self, raw: bytes, flags: int) -> List[int]:
        ids, n = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t()
        call("dop_text_encode", self._get(), raw, len(raw), flags, DIAG, ctypes.byref(ids), ctypes.byref(n))
        return take_ids(ids, n)

    def encode_pair(self, first: str, second: str) -> Tuple[List[int], int]:
        """Returns the ids of a pair of texts, for models that compare two, and the number of ids before the second text."""
        ids, n, at = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t(), ctypes.c_size_t()
        a, b = string_in(first, "first"), string_in(second, "second")
        call("dop_text_encode_pair", self._get(), a, len(a), b, len(b), DIAG, ctypes.byref(ids), ctypes.byref(n),
             ctypes.byref(at))
        return take_ids(ids, n), at.value

    def decode(self, ids: Ids) -> str:
        """Returns the text of ids, without special tokens."""
        raw, n = ctypes.c_void_p(), ctypes.c_size_t()
        call("dop_text_decode", self._get(), ids_in(ids), len(ids), DIAG, ctypes.byref(raw), ctypes.byref(n))
        return take_text(raw, n)

    def decoder(self, *, goes_on: bool = False, keep_special: bool = False) -> "Decoder":
        return Decoder(self, goes_on=goes_on, keep_special=keep_special)

    def is_end(self, token: int) -> bool:
        """True if the id ends generation."""
        return bool(lib.dop_text_is_end(self._get(), token_in(token)))

    def prompt(self, name: Optional[str] = None) -> str:
        """Returns the prefix for texts to embed: the one with this name, or the model's default."""
        found = ctypes.c_void_p()
        call("dop_text_prompt", self._get(), None if name is None else text_in(name), DIAG, ctypes.byref(found))
        return text(ctypes.cast(found, ctypes.c_char_p).value)

    def search_prompt(self, query: bool) -> str:
        """Returns the prefix for search queries, or for the texts that are searched."""
        return text(lib.dop_text_search_prompt(self._get(), query))

    def chat(self) -> "Chat":
        """Returns the model's chat format."""
        return Chat(self)

    def schema(self, schema: Union[str, Mapping[str, Any], bool]) -> "Shape":
        """Returns the constraint that a text is JSON and valid for the schema; "": any JSON object."""
        return Shape(self, schema=_schema_in(schema))

    def grammar(self, grammar: str) -> "Shape":
        """Returns the constraint that a text matches the grammar (GBNF)."""
        return Shape(self, grammar=instance_in(grammar, str, "grammar"))


class Decoder(Handle):
    """Converts a stream of ids to text, in complete characters.  Used by one thread at a time."""

    _destroy = "dop_decoder_destroy"

    def __init__(self, of: Text, *, goes_on: bool = False, keep_special: bool = False) -> None:
        handle = ctypes.c_void_p()
        instance_in(of, Text, "of")
        flags = _abi.DOP_TEXT_GOES_ON * goes_on | _abi.DOP_TEXT_KEEP_SPECIAL * keep_special
        call("dop_decoder_create", of._get(), flags, DIAG, ctypes.byref(handle))
        self._text, self._model = of, of._model
        self._handle = handle.value
        of._used_by(self)

    def push(self, token: int) -> str:
        """Adds an id, and returns the characters that it completes."""
        raw, n = ctypes.c_void_p(), ctypes.c_size_t()
        call("dop_decoder_push", self._get(), token_in(token), DIAG, ctypes.byref(raw), ctypes.byref(n))
        return measured(raw, n.value)

    def end(self) -> str:
        """Returns the rest of the text: an incomplete character becomes U+FFFD."""
        raw, n = ctypes.c_void_p(), ctypes.c_size_t()
        call("dop_decoder_end", self._get(), DIAG, ctypes.byref(raw), ctypes.byref(n))
        return measured(raw, n.value)


class Chat(Handle):
    """A chat format: the model's template, another Jinja template, or a common format by name ("chatml").  Any number of
    threads may use one."""

    _destroy = "dop_chat_destroy"

    def __init__(self, of: Text, *, template: Optional[str] = None, name: Optional[str] = None) -> None:
        handle = ctypes.c_void_p()
        instance_in(of, Text, "of")
        if template is not None:
            raw = string_in(template, "template")
            call("dop_chat_of_template", raw, len(raw), DIAG, ctypes.byref(handle))
        elif name is not None:
            call("dop_chat_of_name", text_in(name), DIAG, ctypes.byref(handle))
        else:
            call("dop_chat_of_text", of._get(), DIAG, ctypes.byref(handle))
        self._text, self._model = of, of._model
        self._handle = handle.value
        of._used_by(self)

    @property
    def stops(self) -> List[str]:
        """Texts that end an answer, in addition to the end ids."""
        found: List[str] = []
        pointer = lib.dop_chat_stops(self._get())
        while pointer[len(found)] is not None:
            found.append(text(pointer[len(found)]))
        return found

    @staticmethod
    def _json(messages: Messages, tools: Optional[Sequence[Mapping[str, Any]]], more: Dict[str, Any]) -> bytes:
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        whole: Any = dict(messages) if isinstance(messages, Mapping) else {"messages": [mapping_in(m, "messages") for m in messages]}
        if tools is not None:
            whole["tools"] = list(tools)
        whole.update(more)
        return json.dumps(whole).encode()

    def render(self, messages: Messages, tools: Optional[Sequence[Mapping[str, Any]]] = None, *, last: bool = False,
               **more: Any) -> str:
        """Renders a conversation as text, up to the beginning of the answer.  messages: a text of the user, a list of messages with
        "role" and "content", or an object with such a list as "messages".  last: only the text added by the last message.  more:
        further template variables, such as add_generation_prompt=False."""
        raw, n = ctypes.c_void_p(), ctypes.c_size_t()
        body = self._json(messages, tools, more)
        call("dop_chat_text", self._get(), self._text._get(), body, len(body), _abi.DOP_CHAT_LAST * last, DIAG,
             ctypes.byref(raw), ctypes.byref(n))
        return take_text(raw, n)

    def ids(self, messages: Messages, tools: Optional[Sequence[Mapping[str, Any]]] = None, *, last: bool = False,
            **more: Any) -> List[int]:
        """Like render(), but returns token ids."""
        ids, n = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t()
        body = self._json(messages, tools, more)
        call("dop_chat_ids", self._get(), self._text._get(), body, len(body), _abi.DOP_CHAT_LAST * last, DIAG,
             ctypes.byref(ids), ctypes.byref(n))
        return take_ids(ids, n)


class Shape(Handle):
    """A constraint on answers, compiled for a vocabulary.  Any number of threads and generations may use one."""

    _destroy = "dop_constraint_destroy"

    def __init__(self, of: Text, *, schema: Union[str, Mapping[str, Any], bool, None] = None,
                 grammar: Optional[str] = None) -> None:
        if (schema is None) == (grammar is None):
            raise Error(Status.USAGE, "a shape is of a schema or of a grammar")
        handle = ctypes.c_void_p()
        instance_in(of, Text, "of")
        raw = string_in(grammar, "grammar") if schema is None else string_in(_schema_in(schema), "schema")
        call("dop_constraint_from_" + ("grammar" if schema is None else "schema"), of._get(), raw, len(raw), DIAG,
             ctypes.byref(handle))
        self._text, self._model = of, of._model
        self._handle = handle.value
        of._used_by(self)

    @property
    def unenforced(self) -> str:
        """Keywords of the schema that are not enforced exactly, separated by ", "."""
        return text(lib.dop_constraint_unenforced(self._get()))

    def matcher(self) -> "Matcher":
        return Matcher(self)


class Matcher(Handle):
    """Matches one text against a shape, for applications with their own sampling; Sequence.write accepts the shape directly.
    Used by one thread at a time."""

    _destroy = "dop_constraint_matcher_destroy"

    def __init__(self, shape: Shape, sampling: Any = None) -> None:
        handle = ctypes.c_void_p()
        instance_in(shape, Shape, "shape")
        call("dop_constraint_matcher_create", shape._get(), None if sampling is None else ctypes.byref(sampling), DIAG,
             ctypes.byref(handle))
        self._shape, self._model = shape, shape._model
        self._sampling = sampling
        self._handle = handle.value
        shape._used_by(self)

    def mask(self) -> List[int]:
        """Returns the permitted next ids as a bit mask in 32-bit words, lowest bit first."""
        diag = _abi.dop_diag()
        words = lib.dop_constraint_matcher_mask(self._get(), ctypes.byref(diag))
        if not words:
            raise Error(Status(diag.code), text(diag.message))
        found: List[int] = words[: (self._shape._text.vocab + 31) // 32]
        return found

    def allows(self, token: int) -> bool:
        words = self.mask()
        return token >= 0 and token // 32 < len(words) and bool(words[token // 32] >> token % 32 & 1)

    def accept(self, token: int) -> None:
        call("dop_constraint_matcher_accept", self._get(), token_in(token), DIAG)

    @property
    def may_end(self) -> bool:
        return bool(lib.dop_constraint_matcher_may_end(self._get()))

    @property
    def must_end(self) -> bool:
        return bool(lib.dop_constraint_matcher_must_end(self._get()))
