"""Loads libdoppler and libdopplerc, and turns the failures of their functions into exceptions."""
import ctypes
import enum
import os
import sys
import threading
from array import array
from typing import Any, Callable, List, Optional, Sequence, Union

from . import _abi
from ._where import FOLDER, VERSION


class Status(enum.IntEnum):
    """Why a call failed (doppler/status.h)."""

    INPUT = _abi.DOP_E_INPUT  #: outside data is missing, damaged or not supported, or a call does not fit its object
    DEVICE = _abi.DOP_E_DEVICE  #: the device cannot do it, was lost, or is out of memory
    IO = _abi.DOP_E_IO  #: the operating system refused
    NOMEM = _abi.DOP_E_NOMEM  #: host memory
    USAGE = _abi.DOP_E_USAGE  #: calls in the wrong order, unknown names
    INTERNAL = _abi.DOP_E_INTERNAL  #: a broken invariant of the library
    FULL = _abi.DOP_E_FULL  #: no page of the caches is free; try again after another sequence has released some
    LIMIT = _abi.DOP_E_LIMIT  #: the work on outside data reached a bound of steps, bytes or time
    CANCELLED = _abi.DOP_E_CANCELLED  #: a progress function returned False


class Error(Exception):
    """A call of the library failed.  str() is the library's message, with the file that it is about in front."""

    def __init__(self, code: Status, message: str, path: str = "", line: int = 0, column: int = 0) -> None:
        place = ":".join([path] * bool(path) + [str(n) for n in (line, column) if n])
        super().__init__(f"{place}: {message}" if place else message)
        self.code = code  #: a Status
        self.message = message
        self.path = path  #: file that the message is about, or ""
        self.line = line  #: from 1; 0: none
        self.column = column


def _load(name: str) -> ctypes.CDLL:
    """The library of this installation, wherever that was moved to; else the one that the loader finds."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), FOLDER, name)
    return ctypes.CDLL(own if os.path.exists(own) else name)


def _declare(library: ctypes.CDLL, compiler: bool) -> None:
    for name, (result, parameters) in _abi.FUNCTIONS.items():
        if (name == "dop_compile") == compiler:
            function = getattr(library, name)
            function.restype = result
            function.argtypes = parameters


lib = _load("libdoppler.so.0")
lib.dop_version.restype = ctypes.c_char_p
if lib.dop_version() != VERSION.encode():
    raise ImportError(f"libdoppler is release {lib.dop_version().decode()}, and this package is of {VERSION}")
_declare(lib, False)

_compiler: Optional[ctypes.CDLL] = None
_compiler_lock = threading.Lock()


def compiler() -> ctypes.CDLL:
    """libdopplerc, which is loaded when it is needed first."""
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


DIAG = object()  #: stands for the diagnostic among the arguments of call()


class Trap:
    """Keeps what a function of the caller's raised while the library called it; call() raises it again."""

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None

    def around(self, function: Callable[..., Any], failed: Any) -> Callable[..., Any]:
        """A function that never raises, which ctypes could not pass on: it returns `failed` instead."""

        def guarded(*arguments: Any) -> Any:
            if self.raised is not None:
                return failed
            try:
                return function(*arguments)
            except BaseException as error:  # pylint: disable=broad-except
                self.raised = error
                return failed

        return guarded


def check(status: int, diag: _abi.dop_diag, trap: Optional[Trap] = None) -> None:
    if trap is not None and trap.raised is not None:
        raised, trap.raised = trap.raised, None
        raise raised
    if status != _abi.DOP_OK:
        raise Error(Status(status), text(diag.message), os.fsdecode(diag.path), diag.line, diag.column)


def call(name: str, *arguments: Any, trap: Optional[Trap] = None, library: Optional[ctypes.CDLL] = None) -> None:
    """Calls a function that returns a dop_status; DIAG among its arguments is a diagnostic of its own."""
    diag = _abi.dop_diag()
    status = getattr(library or lib, name)(*(ctypes.byref(diag) if a is DIAG else a for a in arguments))
    check(status, diag, trap)


def text(value: Optional[bytes]) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def measured(pointer: Any, size: int) -> str:
    """`size` bytes at a pointer as text."""
    return ctypes.string_at(pointer, size).decode("utf-8", "replace") if size else ""


def take_text(pointer: ctypes.c_void_p, size: ctypes.c_size_t) -> str:
    """A text that the library returned to its caller."""
    taken = measured(pointer, size.value)
    lib.dop_free(pointer)
    return taken


def take_ids(pointer: Any, size: ctypes.c_size_t) -> List[int]:
    """Ids that the library returned to its caller."""
    taken: List[int] = pointer[: size.value] if size.value else []
    lib.dop_free(ctypes.cast(pointer, ctypes.c_void_p))
    return taken


Ids = Union[Sequence[int], "array[int]"]


def ids_in(ids: Ids) -> Any:
    """Ids as the library takes them: those of an array of 32-bit words as they are."""
    if isinstance(ids, array) and ids.typecode == "I" and ids.itemsize == 4:
        return (ctypes.c_uint32 * len(ids)).from_buffer(ids)
    for value in ids:
        if not 0 <= value < 1 << 32:
            raise Error(Status.INPUT, f"{value} is not a token id")
    return (ctypes.c_uint32 * len(ids))(*ids)


def texts_in(texts: Sequence[Union[str, "os.PathLike[str]"]]) -> Any:
    return (ctypes.c_char_p * max(len(texts), 1))(*(os.fsencode(t) for t in texts))


def progress_in(function: Optional[Callable[[str, int, int], Any]], trap: Trap) -> _abi.dop_progress:
    """A dop_progress that calls function(step, done, all); what is not False goes on."""
    if function is None:
        return _abi.dop_progress()
    wanted = function
    guarded = trap.around(lambda user, step, done, whole: wanted(text(step), done, whole) is not False, False)
    return _abi.dop_progress(_abi.dop_progress_fn(guarded), None)


def log_in(function: Optional[Callable[[str], Any]]) -> _abi.dop_log:
    if function is None:
        return _abi.dop_log()
    wanted = function

    def line(_user: Any, said: bytes) -> None:
        try:
            wanted(text(said))
        except Exception:  # pylint: disable=broad-except
            sys.excepthook(*sys.exc_info())

    return _abi.dop_log(type(_abi.dop_log().line)(line), None)


class Drive:
    """Lets one thread at a time use a model, as the library wants it: the others wait.

    Objects that nobody closed are destroyed with the next call, because Python may collect them at any time, also while the
    library is at work."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside = False
        self._dead: List[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._inside:
            self._lock.release()
            raise Error(Status.USAGE, "a function that the library calls may not use the model that calls it")
        self._inside = True
        while self._dead:
            self._dead.pop(0)()

    def __exit__(self, *_: Any) -> None:
        self._inside = False
        self._lock.release()

    def bury(self, destroy: Callable[[], None]) -> None:
        """Calls destroy now, where no thread uses the model, else before its next use."""
        self._dead.append(destroy)
        if self._lock.acquire(blocking=False):
            try:
                while self._dead and not self._inside:
                    self._dead.pop(0)()
            finally:
                self._lock.release()
