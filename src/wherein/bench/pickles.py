"""Pickles and .npy files that hold only data: containers, strings, numbers and numpy arrays.

A pickle can name any function and have it called. This reader looks nothing up: every name a file may use
is answered by a stand-in kept here, and a file that asks for another is refused by that name.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from wherein.errors import DataError

MAX_DEPTH = 64
"""Containers within containers, at most: far below Python's default limit of 1,000 calls within calls."""
_PLAIN_KINDS = "biufcSU"
_HEADERS: Final = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""What reads the header of an .npy file, by the version of its format."""


class _Refused(Exception):
    """The file asks for something that is not data."""


class _Dtype:
    """Stands for numpy.dtype: plain numbers, fixed-width strings, or objects; never a structure."""

    __slots__ = ("value",)

    def __init__(self, spec: Any, align: Any = False, copy: Any = False) -> None:
        if not isinstance(spec, str) or not isinstance(align, (bool, int)) or not isinstance(copy, (bool, int)):
            raise _Refused("a numpy dtype that is not a plain one")
        self.value = np.dtype(spec)
        if self.value.kind not in _PLAIN_KINDS + "O" or self.value.names or self.value.subdtype:
            raise _Refused(f"the numpy dtype {self.value}")

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise _Refused("a structured numpy dtype")
        if state[1] in ("<", ">"):
            self.value = self.value.newbyteorder(state[1])


class _Array:
    """Stands for numpy.ndarray while its parts arrive; `value` is the array."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: NDArray[Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        try:
            _version, shape, dtype, fortran, data = state
        except (TypeError, ValueError):
            raise _Refused("a numpy array whose parts are not those of an array") from None
        self.value = _built(data, dtype, shape, "F" if fortran else "C")


class _Maker:
    """A callable a pickle may use; it takes no state, so a file cannot alter it."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise _Refused("state given to a function")


def _built(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    if not isinstance(dtype, _Dtype) or not isinstance(shape, tuple) or order not in ("C", "F"):
        raise _Refused("a numpy array whose parts are not those of an array")
    if any(not isinstance(side, int) or side < 0 for side in shape):
        raise _Refused(f"a numpy array of shape {shape}")
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if dtype.value.kind == "O":
        if not isinstance(data, list) or len(data) != count:
            raise _Refused("a numpy array of objects without its list of objects")
        objects = np.empty(count, dtype=object)
        for place, item in enumerate(data):
            objects[place] = item
        return objects.reshape(shape, order=order)
    raw = data.encode("latin1") if isinstance(data, str) else data
    size = dtype.value.itemsize
    if size == 0 or not isinstance(raw, (bytes, bytearray)) or len(raw) != count * size:
        raise _Refused("a numpy array whose bytes do not fill its shape")
    return np.frombuffer(bytes(raw), dtype=dtype.value).reshape(shape, order=order)


def _reconstruct(*_arguments: Any) -> _Array:
    return _Array()


def _scalar(dtype: Any, data: Any = b"") -> Any:
    return _built(data, dtype, (), "C")[()]


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any = "C") -> _Array:
    made = _Array()
    made.value = _built(data, dtype, shape, order)
    return made


def _latin1(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _Refused("_codecs.encode with something other than latin1 text")
    return text.encode("latin1")


def _byte_array(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    # bytearray(n) would allocate n bytes at the word of the file.
    return bytearray(data if isinstance(data, (bytes, bytearray)) else _latin1(data, encoding))


def _only_bytes(*arguments: Any) -> bytes:
    return bytes(_byte_array(*arguments))


_NUMPY_MAKERS: Final = {
    "multiarray._reconstruct": _Maker(_reconstruct),
    "multiarray.scalar": _Maker(_scalar),
    "numeric._frombuffer": _Maker(_from_buffer),
}
_MAKERS: Final = {
    **{f"numpy.{core}.{name}": maker for core in ("core", "_core") for name, maker in _NUMPY_MAKERS.items()},
    "numpy.ndarray": _Maker(_reconstruct),
    "numpy.dtype": _Maker(_Dtype),
    "collections.OrderedDict": _Maker(dict),
    "_codecs.encode": _Maker(_latin1),
    **{
        f"{home}.{kind.__name__}": _Maker(kind)
        for home in ("builtins", "__builtin__")
        for kind in (list, dict, tuple, set, frozenset, complex)
    },
    **{f"{home}.bytearray": _Maker(_byte_array) for home in ("builtins", "__builtin__")},
    **{f"{home}.bytes": _Maker(_only_bytes) for home in ("builtins", "__builtin__")},
}


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        """The stand-in for a name, never what the name means."""
        maker = _MAKERS.get(f"{module_name}.{global_name}")
        if maker is None:
            raise _Refused(f"{module_name}.{global_name}")
        return maker


def read_pickle(path: Path) -> Any:
    """The data of a pickle; a DataError names whatever in it is not data."""
    with _opened(path) as stream:
        return _unpickled(stream.read(), path)


def read_npy(path: Path) -> Any:
    """The array of an .npy file; a 0-d array of one object (how numpy saves a dict) gives that object."""
    with _opened(path) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            shape, _fortran, dtype = _HEADERS[version](stream)
        except KeyError:
            raise DataError(f"{path}: .npy format {version} is not known; save it again with numpy.save") from None
        except Exception as error:
            # A hostile header can fail anywhere in what parses it.
            raise DataError(f"{path} is not an .npy file ({error}); save it with numpy.save") from error
        if dtype.kind == "O":
            value = _unpickled(stream.read(), path)
            if not isinstance(value, np.ndarray) or value.shape != shape:
                raise DataError(f"{path}: what follows the header is not the array it announces; save it again")
            return value[()] if value.shape == () else value
        if dtype.kind not in _PLAIN_KINDS:
            raise DataError(f"{path}: the dtype {dtype} is refused; only numbers, strings and objects are read")
        announced, there = math.prod(shape) * dtype.itemsize, path.stat().st_size - stream.tell()
        if announced > there:  # asked first: numpy would allocate what the header announces
            raise DataError(
                f"{path} is cut short or damaged: {shape} {dtype} takes more than {there} bytes; save it again"
            )
        stream.seek(0)
        try:
            return np.lib.format.read_array(stream, allow_pickle=False)
        except (ValueError, EOFError, OverflowError) as error:
            raise DataError(f"{path} is cut short or damaged ({error}); save it again") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the path") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _unpickled(data: bytes, path: Path) -> Any:
    try:
        _check_sizes(data)
        return _unwrapped(_DataUnpickler(io.BytesIO(data), encoding="latin1").load(), 0, {})
    except _Refused as refused:
        raise DataError(
            f"{path} is refused: it asks for {refused}, and only containers, strings, numbers and numpy "
            "arrays are read; get the file from its publisher again"
        ) from None
    except Exception as error:
        # A hostile or damaged pickle can fail anywhere in the machine that runs it.
        raise DataError(f"{path} is not a readable pickle ({type(error).__name__}: {error})") from error


def _check_sizes(data: bytes) -> None:
    """Refuse a pickle that announces more than it holds: the machine that runs it would allocate that first."""
    for opcode, argument, _ in pickletools.genops(data):  # which raises where a string is cut short
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > len(data):
            raise _Refused(f"a memory of {argument:,} places")


def _unwrapped(value: Any, depth: int, done: dict[int, Any]) -> Any:
    """The same data with stand-ins replaced by what they stand for; `done` keeps shared parts shared."""
    if depth > MAX_DEPTH:
        raise _Refused("containers nested too deeply, or inside themselves")
    if isinstance(value, _Array):
        value = value.value
    if isinstance(value, (_Dtype, _Maker)):
        raise _Refused("a function or dtype as data")
    if id(value) in done:
        return done[id(value)]
    result = value
    if isinstance(value, dict):
        keys = [_unwrapped(key, depth + 1, done) for key in value]
        result = dict(zip(keys, [_unwrapped(item, depth + 1, done) for item in value.values()], strict=True))
    elif isinstance(value, (list, tuple, set, frozenset)):
        result = type(value)([_unwrapped(item, depth + 1, done) for item in value])
    elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
        result = np.empty(value.shape, dtype=object)
        for place in np.ndindex(value.shape):
            result[place] = _unwrapped(value[place], depth + 1, done)
    if isinstance(value, (dict, list, tuple, set, frozenset, np.ndarray)):
        done[id(value)] = result
    return result
