"""Loads libdoppler and libdopplerc, and turns the failures of their functions into exceptions."""
import ctypes
import enum
import operator
import os
import re
import sys
import threading
from array import array
from typing import Any, Callable, List, Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar, Union

from . import _abi
from ._interrupts import INTERRUPTS
from ._where import FOLDER, VERSION


class Status(enum.IntEnum):
    """Why a call failed (doppler/status.h)."""

    INPUT = _abi.DOP_E_INPUT  #: input data is missing, damaged or not supported, or the call is invalid for the object
    DEVICE = _abi.DOP_E_DEVICE  #: the device lacks a feature, was lost, or is out of memory
    IO = _abi.DOP_E_IO  #: an operating system call failed
    NOMEM = _abi.DOP_E_NOMEM  #: out of host memory
    USAGE = _abi.DOP_E_USAGE  #: calls in the wrong order, or unknown names
    INTERNAL = _abi.DOP_E_INTERNAL  #: a bug in the library
    FULL = _abi.DOP_E_FULL  #: no cache page is free; retry after another sequence has released some
    LIMIT = _abi.DOP_E_LIMIT  #: processing the input exceeded a limit of steps, bytes or time
    CANCELLED = _abi.DOP_E_CANCELLED  #: a progress callback returned False


class Error(Exception):
    """A call of the library failed.  str() is the library's message, prefixed with the file it refers to."""

    def __init__(self, code: Status, message: str, path: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(code, message, path, line, column)
        self.code = code  #: a Status
        self.message = message
        self.path = path  #: file that the message refers to, or ""
        self.line = line  #: 1-based; 0: none
        self.column = column

    def __str__(self) -> str:
        place = ":".join([self.path] * bool(self.path) + [str(n) for n in (self.line, self.column) if n])
        return f"{place}: {self.message}" if place else self.message


#: Maps C functions and members, which the library's messages put between backquotes, to calls of this package.  Other names
#: between backquotes are parameters, which have the same names here.
_CALLS = {
    "dop_chat_of_template": "doppler.Chat(text, template=...)",
    "dop_compile_options.loras": "doppler.compile(loras=...)",
    "dop_compile_options.parts": "doppler.compile(parts=...)",
    "dop_devices": "doppler.devices()",
    "dop_program_run": "Model.run()",
    "dop_sampling.logprobs": "Sampling(logprobs=True)",
}


def _named(message: str) -> str:
    return re.sub("`([a-z_.]+)`", lambda found: _CALLS.get(found[1], found[0]), message)


Kind = TypeVar("Kind")


def instance_in(value: Any, kind: Type[Kind], name: str) -> Kind:
    """Returns an argument, or raises TypeError if it is not of this class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, not {type(value).__name__}")
    return value


def mapping_in(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: expected a mapping, not {type(value).__name__}")
    return value


def string_in(value: Any, name: str) -> bytes:
    """Returns the UTF-8 of a str argument.  Lone surrogates are passed on, and the library refuses them."""
    return instance_in(value, str, name).encode("utf-8", "surrogatepass")


def number_in(value: Any, most: int) -> int:
    """Checks the range of a whole number; ctypes would silently reduce it modulo 2^32."""
    number = operator.index(value)
    if not 0 <= number <= most:
        raise ValueError(f"{number} is not a number from 0 to {most}")
    return number


def token_in(value: Any) -> int:
    token = operator.index(value)
    if not 0 <= token < 1 << 32:
        raise Error(Status.INPUT, f"{token} is not a token id")
    return token


_KNOWN = frozenset(Status)
_WHOLE = (ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t)


class _Number:
    """A ctypes parameter type for whole numbers, with a range check."""

    def __init__(self, kind: Any) -> None:
        self._kind, self._most = kind, (1 << 8 * ctypes.sizeof(kind)) - 1

    def from_param(self, value: Any) -> Any:
        return self._kind(number_in(value, self._most))


def _look_at_numbers(struct: Any) -> None:
    """Adds range checks to the whole-number members of a structure."""
    most = {name: (1 << 8 * ctypes.sizeof(kind)) - 1 for name, kind in struct._fields_ if kind in _WHOLE}

    def set_member(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, number_in(value, most[name]) if name in most else value)

    struct.__setattr__ = set_member


for _struct in list(vars(_abi).values()):
    if isinstance(_struct, type) and issubclass(_struct, ctypes.Structure) and _struct is not ctypes.Structure:
        _look_at_numbers(_struct)


def _load(name: str) -> ctypes.CDLL:
    """Loads the library next to this installation, which may have been moved; otherwise the one that the system's loader finds."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), FOLDER, name)
    return ctypes.CDLL(own if os.path.exists(own) else name)


def _declare(library: ctypes.CDLL, compiler: bool) -> None:
    for name, (result, parameters) in _abi.FUNCTIONS.items():
        if (name == "dop_compile") == compiler:
            function = getattr(library, name)
            function.restype = result
            function.argtypes = [_Number(kind) if kind in _WHOLE else kind for kind in parameters]


lib = _load("libdoppler.so.0")
lib.dop_version.restype = ctypes.c_char_p
if lib.dop_version() != VERSION.encode():
    raise ImportError(f"libdoppler is release {lib.dop_version().decode()}, and this package is of {VERSION}")
_declare(lib, False)

_compiler: Optional[ctypes.CDLL] = None
_compiler_lock = threading.Lock()


def compiler() -> ctypes.CDLL:
    """Returns libdopplerc, loading it on first use."""
    global _compiler
    with _compiler_lock:
        if _compiler is None:
            try:
                library = _load("libdopplerc.so.0")
            except OSError as error:
                raise Error(Status.IO, f"libdopplerc is not there: install the package libdopplerc0 ({error})") from None
            _declare(library, True)
            _compiler = library
        return _compiler


DIAG = object()  #: placeholder for the dop_diag among the arguments of call()


class Trap:
    """Stores the exception that a callback raised; call() raises it again."""

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None

    def around(self, function: Callable[..., Any], failed: Any) -> Callable[..., Any]:
        """Wraps a callback so that it returns `failed` instead of raising, because ctypes cannot propagate exceptions."""

        def guarded(*arguments: Any) -> Any:
            if self.raised is not None:
                return failed
            depth = INTERRUPTS.depth()
            try:
                INTERRUPTS.allow(depth)
                result = function(*arguments)
                INTERRUPTS.note_again(depth)
                return result
            except BaseException as error:  # pylint: disable=broad-except
                self.raised = error
                INTERRUPTS.note_again(depth)
                return failed

        return guarded


def check(status: int, diag: _abi.dop_diag, trap: Optional[Trap] = None) -> None:
    if trap is not None and trap.raised is not None:
        raised, trap.raised = trap.raised, None
        raise raised
    if status != _abi.DOP_OK:
        if status not in _KNOWN:  # a signal handler raised inside ctypes
            raise Error(Status.INTERNAL, "a signal came between")
        raise Error(Status(status), _named(text(diag.message)), os.fsdecode(diag.path), diag.line, diag.column)


def call(name: str, *arguments: Any, trap: Optional[Trap] = None, library: Optional[ctypes.CDLL] = None) -> None:
    """Calls a function that returns a dop_status, and raises Error if it fails.  DIAG among the arguments is replaced by a new dop_diag."""
    diag = _abi.dop_diag()
    try:
        status = getattr(library or lib, name)(*(ctypes.byref(diag) if a is DIAG else a for a in arguments))
    except ctypes.ArgumentError as error:  # has the exception of from_param as text: argument 2: [<class ']TypeError['>]: ...
        of = re.match("argument [0-9]+: (?:<class ')?([A-Za-z]+)(?:'>)?: (.*)", str(error), re.S)
        kind, message = of.groups() if of else ("TypeError", str(error))
        raise (ValueError if kind == "ValueError" else TypeError)(message) from None
    check(status, diag, trap)


def text(value: Optional[bytes]) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def measured(pointer: Any, size: int) -> str:
    """Returns `size` bytes at a pointer as text."""
    return ctypes.string_at(pointer, size).decode("utf-8", "replace") if size else ""


def take_text(pointer: ctypes.c_void_p, size: ctypes.c_size_t) -> str:
    """Returns a text that the library allocated, and frees the original."""
    taken = measured(pointer, size.value)
    lib.dop_free(pointer)
    return taken


def take_ids(pointer: Any, size: ctypes.c_size_t) -> List[int]:
    """Returns ids that the library allocated, and frees the original."""
    taken: List[int] = pointer[: size.value] if size.value else []
    lib.dop_free(ctypes.cast(pointer, ctypes.c_void_p))
    return taken


Ids = Union[Sequence[int], "array[int]"]


def ids_in(ids: Ids) -> Any:
    """Converts ids for the library.  An array of 32-bit words is not copied."""
    if isinstance(ids, (str, bytes, bytearray)):
        raise TypeError(f"a list of token ids is wanted, not {type(ids).__name__}")
    if isinstance(ids, array) and ids.typecode == "I" and ids.itemsize == 4:
        return (ctypes.c_uint32 * len(ids)).from_buffer(ids)
    return (ctypes.c_uint32 * len(ids))(*(token_in(value) for value in ids))


Named = Union[str, bytes, "os.PathLike[str]"]


def text_in(value: Named) -> bytes:
    """Encodes a text or file name for the library.  NUL characters are refused, because they would end it."""
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise ValueError("embedded null character")
    return raw


def list_in(values: Union[Named, Sequence[Any]]) -> List[Any]:
    """Returns texts as a list; a single text makes a list of one."""
    return [values] if isinstance(values, (str, bytes, os.PathLike)) else list(values)


def texts_in(texts: Union[Named, Sequence[Named]]) -> Tuple[Any, int]:
    """Converts texts for the library.  Returns the array and its length."""
    raw = [text_in(t) for t in list_in(texts)]
    return (ctypes.c_char_p * max(len(raw), 1))(*raw), len(raw)


def progress_in(function: Optional[Callable[[str, int, int], Any]], trap: Trap) -> _abi.dop_progress:
    """Returns a dop_progress that calls function(step, done, all) and continues unless that returns False.  Without a function, it only lets
    Python handle interrupts."""
    if function is None and not INTERRUPTS.here():
        return _abi.dop_progress()
    wanted = function or (lambda *_: None)
    guarded = trap.around(lambda user, step, done, whole: wanted(text(step), done, whole) is not False, False)
    return _abi.dop_progress(_abi.dop_progress_fn(guarded), None)


_lines = type(_abi.dop_log().line)


def names_in(function: Optional[Callable[[str], Any]]) -> Any:
    """Returns a callback for the library that passes a line or name to a Python function.  Any thread may call it."""
    if function is None:
        return _lines()
    wanted = function

    def line(_user: Any, said: bytes) -> None:
        try:
            wanted(text(said))
        except Exception:  # pylint: disable=broad-except
            sys.excepthook(*sys.exc_info())

    return _lines(line)


def log_in(function: Optional[Callable[[str], Any]]) -> _abi.dop_log:
    return _abi.dop_log(names_in(function), None)


class Drive:
    """Lock that lets one thread at a time use a model, as the library requires.  Interrupts are delayed while it is held.

    A draft model is locked together with the model that it drafts for.  Objects that were not closed are destroyed in the next call,
    because Python may collect them at any time, even during a call of the library."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._inside = False
        self._dead: List[Callable[[], None]] = []
        self.drafts: Set[Drive] = set()  # drives of the models that draft for this one
        self._entered: List[Drive] = []

    def _with(self, found: Set["Drive"]) -> Set["Drive"]:
        if self not in found:
            found.add(self)
            for drive in self.drafts:
                drive._with(found)
        return found

    @property
    def forked(self) -> bool:
        """True in a process forked from the one that opened the model.  Locks may then be held by threads that do not exist here."""
        return os.getpid() != self._process

    def __enter__(self) -> None:
        if self.forked:
            raise Error(Status.USAGE, f"the model was opened by process {self._process}, from which this one was forked: open it "
                        'here, or start processes by multiprocessing\'s "spawn"')
        INTERRUPTS.__enter__()
        entered: List[Drive] = []
        try:
            for drive in sorted(self._with(set()), key=id):  # in a fixed order, to avoid deadlocks
                while not drive._lock.acquire(timeout=0.1):
                    INTERRUPTS.raise_now()
                if drive._inside:
                    drive._lock.release()
                    raise Error(Status.USAGE, "a function that the library calls may not use the model that calls it")
                drive._inside = True
                entered.append(drive)
                while drive._dead:
                    drive._dead.pop(0)()
        except BaseException:
            self._leave(entered)
            raise
        self._entered = entered

    @staticmethod
    def _leave(drives: List["Drive"]) -> None:
        for drive in drives:
            drive._inside = False
            drive._lock.release()
        INTERRUPTS.__exit__()

    def __exit__(self, *_: Any) -> None:
        self._leave(self._entered)

    def bury(self, destroy: Callable[[], None]) -> None:
        """Calls destroy now if no thread uses the model, otherwise before its next use."""
        self._dead.append(destroy)
        if not self.forked and self._lock.acquire(blocking=False):
            try:
                while self._dead and not self._inside:
                    self._dead.pop(0)()
            finally:
                self._lock.release()
