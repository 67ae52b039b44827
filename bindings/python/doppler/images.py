"""Images in a prompt (doppler/images.h)."""
import ctypes
from typing import TYPE_CHECKING, Any, List, Sequence, Tuple, Union

from . import _abi
from ._library import DIAG, call, lib, string_in, take_text
from .handle import Handle

if TYPE_CHECKING:
    from .model import Model


class Images(Handle):
    """A model's image preprocessor: Model.images."""

    _destroy = "dop_images_close"
    _model: "Model"

    def __init__(self, model: "Model") -> None:
        handle = ctypes.c_void_p()
        call("dop_images_open", model._get(), None, DIAG, ctypes.byref(handle))
        self._model = model
        self._handle = handle.value

    def read(self, picture: Union[bytes, bytearray, memoryview], *, animated: bool = False) -> "Image":
        """Reads an image from the bytes of a PNG, JPEG, WebP or GIF file.  animated: accept animations, and use the first frame."""
        return Image(self, bytes(memoryview(picture)), animated)

    def mark(self, prompt: str, n: int) -> str:
        """Returns the prompt with n image marks of the model.  Missing marks are put in front."""
        size, made, raw = ctypes.c_size_t(), ctypes.c_void_p(), string_in(prompt, "prompt")
        call("dop_images_mark", self._get(), raw, len(raw), n, DIAG, ctypes.byref(made), ctypes.byref(size))
        return take_text(made, size)

    def _expand(self, prompt: str, images: Sequence["Image"]) -> bytes:
        """Returns the prompt with each mark replaced by the text of the image's tokens."""
        n, made, raw = ctypes.c_size_t(), ctypes.c_void_p(), string_in(prompt, "prompt")
        call("dop_images_expand", self._get(), raw, len(raw), _list(images), len(images), DIAG, ctypes.byref(made), ctypes.byref(n))
        return take_text(made, n).encode()

    def _place(self, ids: List[int], images: Sequence["Image"]) -> List[int]:
        words = (ctypes.c_uint32 * max(len(ids), 1))(*ids)
        call("dop_images_place", self._get(), words, len(ids), _list(images), len(images), DIAG)
        placed: List[int] = words[: len(ids)]
        return placed


class Image(Handle):
    """An image.  The model's vision encoder computes its features on first use, or in see()."""

    _destroy = "dop_image_close"
    _model: "Model"

    def __init__(self, images: Images, raw: bytes, animated: bool) -> None:
        handle = ctypes.c_void_p()
        call("dop_image_read", images._get(), raw, len(raw), animated, DIAG, ctypes.byref(handle))
        self._images, self._model = images, images._model
        self._handle = handle.value
        images._used_by(self)

    def see(self) -> None:
        with self._images._model._drive:
            call("dop_image_see", self._get(), DIAG)

    @property
    def features(self) -> int:
        """Number of rows that the image has in a prompt."""
        return int(lib.dop_image_features(self._get()))

    def rows(self) -> Tuple[int, memoryview]:
        """Returns the width of the features, and a copy of them as floats of shape (features, width)."""
        self.see()
        width = ctypes.c_uint32()
        with self._images._model._drive:
            pointer = lib.dop_image_rows_of(self._get(), ctypes.byref(width))
            raw = ctypes.string_at(pointer, 4 * width.value * self.features)
        return width.value, memoryview(raw).cast("f", (self.features, width.value))


def _list(images: Sequence[Image]) -> Any:
    return (ctypes.c_void_p * max(len(images), 1))(*(image._get() for image in images))
