"""JSON and ndjson files of the benchmarks, with errors that name the file and the line."""

import json
import math
import mmap
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

from wherein.errors import DataError

_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"[ \t\r\n]*:[ \t\r\n]*')
_SCALAR = re.compile(rb"[^,}\]\s]+")
_CLOSING = {b"[": b"]", b"{": b"}", b'"': b'"'}


def require_file(path: Path, *, what: str, hint: str) -> Path:
    """The path itself, or a DataError that says what is missing and what to do about it."""
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise DataError(f"{what}: {path} {kind}; {hint}")
    return path


def read_text(path: Path) -> str:
    """A UTF-8 text file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the folder given with --data or --predictions") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}; check that it is a UTF-8 text file") from error


def read_json(path: Path) -> Any:
    """One JSON document; NaN and Infinity are refused, as are duplicate keys."""
    return parse_json(read_text(path), where=str(path))


def parse_json(text: str, *, where: str) -> Any:
    """Parse one document; errors name `where` and the line."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}, line {error.lineno}: not valid JSON ({error.msg}); write the file again") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}") from error


def read_ndjson(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) for every non-empty line; any other kind of line is an error naming the line."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                yield number, _object_of_line(path, number, line)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the folder given with --data or --predictions") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}; check that it is a UTF-8 text file") from error


def _object_of_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(f"{path}, line {number}: not valid JSON ({reason}); repair that line") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}, line {number}: a JSON object is needed, found {_kind(value)}")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number a score or coordinate can have; write finite numbers only")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {double!r} appears twice; keep one of them")
    return found


def field_of(record: Any, name: str, kind: type | tuple[type, ...], *, where: str) -> Any:
    """A field that must be there and be of a kind; a DataError otherwise."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: an object with {name!r} is needed, found {_kind(record)}")
    if name not in record:
        raise DataError(f"{where}: the field {name!r} is missing; it has {', '.join(map(repr, record)) or 'none'}")
    value = record[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"{where}: the field {name!r} holds {_kind(value)}, which is not what belongs there")
    return value


def finite(value: Any, *, where: str) -> float:
    """A JSON number as a float; a DataError for anything else, also for one that no float can hold."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{where}: {_shown(value)} is not a finite number")
    return number


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, float) else json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__)


def stream_json_object(path: Path, *, nested: str | None = None) -> Iterator[tuple[str, Any]]:
    """(key, value) of a top-level object one at a time, so that only one value is in memory.

    Members of the object under the key `nested` are streamed too, as if they stood at the top.
    """
    require_file(path, what="predictions", hint="check the path given with --predictions")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; write the predictions again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = yield from _members(text, _skip_space(text, 0), path=path, nested=nested)
        if _skip_space(text, end) != len(text):
            _malformed(text, end, path, "text after the end of the document")


def _members(text: mmap.mmap, place: int, *, path: Path, nested: str | None) -> Generator[tuple[str, Any], None, int]:
    if text[place : place + 1] != b"{":
        _malformed(text, place, path, "an object {…} is needed here")
    place = _skip_space(text, place + 1)
    if text[place : place + 1] == b"}":
        return place + 1
    seen: set[str] = set()
    while True:
        key, place = _key_at(text, place, path)
        if key in seen:
            raise DataError(f"{path}: the key {key!r} appears twice; keep one of them")
        seen.add(key)
        if key == nested and text[place : place + 1] == b"{":
            place = yield from _members(text, place, path=path, nested=None)
        else:
            value, place = _value_at(text, place, path)
            yield key, value
        place = _skip_space(text, place)
        if text[place : place + 1] == b"}":
            return place + 1
        if text[place : place + 1] != b",":
            _malformed(text, place, path, "a comma or the end of the object is needed here")
        place = _skip_space(text, place + 1)


def _key_at(text: mmap.mmap, place: int, path: Path) -> tuple[str, int]:
    match = _KEY.match(text, place)
    if match is None:
        _malformed(text, place, path, 'a "key": is needed here')
    return str(parse_json(f'"{match[1].decode("utf-8", "replace")}"', where=str(path))), match.end()


def _value_at(text: mmap.mmap, start: int, path: Path) -> tuple[Any, int]:
    """Decode the value at `start` by cutting at its closing mark, or at a later one if that cut too early."""
    closing = _CLOSING.get(text[start : start + 1])
    end = start
    while closing is not None:
        end = text.find(closing, end + 1)
        if end < 0:
            break
        try:
            chunk = text[start : end + 1].decode("utf-8")
            strings = _plain_strings(chunk)
            if strings is not None:
                return strings, end + 1
            return json.loads(chunk, parse_constant=_no_constant), end + 1
        except json.JSONDecodeError as error:
            # The mark stood inside a string, or closed an inner list: only then is the end at fault.
            if not error.msg.startswith("Unterminated string") and error.pos < len(error.doc):
                _malformed(text, start + len(error.doc[: error.pos].encode()), path, error.msg)
        except (ValueError, RecursionError) as error:
            _malformed(text, start, path, str(error))
    match = _SCALAR.match(text, start)
    if closing is not None or match is None:
        _malformed(text, start, path, "the value that starts here never ends")
    return parse_json(match[0].decode("utf-8", "replace"), where=str(path)), match.end()


def _plain_strings(chunk: str) -> list[str] | None:
    """A list of strings without escapes, three times faster than the decoder; None when it is not just that."""
    pieces = chunk.split('"')
    outside = {piece.strip(" \t\r\n") for piece in set(pieces[2:-1:2])}
    if len(pieces) % 2 == 0 or len(pieces) < 3 or not outside <= {","} or "\\" in chunk:
        return None
    if pieces[0].strip(" \t\r\n") != "[" or pieces[-1].strip(" \t\r\n") != "]":
        return None
    strings = pieces[1::2]
    return strings if "\n" not in "".join(strings) else None


def _skip_space(text: mmap.mmap, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _malformed(text: mmap.mmap, place: int, path: Path, reason: str) -> NoReturn:
    line = text[:place].count(b"\n") + 1
    raise DataError(f"{path}, line {line}: not valid JSON ({reason}); write the file again")
