"""Base class of the library's objects: each is closed once, and before the objects that it uses."""
import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any, ContextManager, Optional, TypeVar, Union

from ._library import Error, Status, lib

if TYPE_CHECKING:
    from .model import Model

Path = Union[str, "os.PathLike[str]"]
Self = TypeVar("Self", bound="Handle")


class Handle:
    """An object of the library, closed by close(), `with` or the garbage collector.  Objects that use it are closed first."""

    _destroy = ""
    _handle: Optional[int] = None
    _model: Optional["Model"] = None  # model that owns it; None: independent of any model
    _users: Optional["weakref.WeakSet[Handle]"] = None

    def _used_by(self, user: "Handle") -> None:
        if self._users is None:
            self._users = weakref.WeakSet()
        self._users.add(user)

    def _driving(self) -> ContextManager[None]:
        if self._model is None:
            return contextlib.nullcontext()
        return self._model._drive

    def _end(self) -> None:
        """Destroys the object, and its users first.  The caller holds the model's Drive."""
        for user in list(self._users or ()):
            user._end()
        handle, self._handle = self._handle, None
        if handle is not None and (self._model is None or not self._model.closed):
            getattr(lib, self._destroy)(handle)

    @property
    def closed(self) -> bool:
        return self._handle is None

    def _get(self) -> int:
        if self._handle is None:
            raise Error(Status.USAGE, f"the {type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            if self._model is not None and self._model._drive.forked:
                self._handle = None  # the parent process owns it
                return
            with self._driving():
                self._end()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied")  # both copies would destroy the same object

    def __enter__(self: Self) -> Self:
        self._get()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        model, destroy = self._model, getattr(lib, self._destroy)
        if model is None:
            destroy(handle)
            return

        of = model

        def end() -> None:
            if not of.closed:  # closing the model has already destroyed it
                destroy(handle)

        of._drive.bury(end)
