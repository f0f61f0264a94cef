"""Texts in compiled functions: an address and a number of bytes of UTF-8, which is never copied.

Comparisons and searches are done on the bytes: UTF-8 keeps the order of code points, and no text begins inside a
character of another one. Indexes count characters. They are bytes if the text is ASCII; a record with
another text at such a place is run by Python.
"""

from functools import partial
from typing import Any

from penstock.steps.compiled.held_kinds import (
    BINARY,
    I1,
    I8,
    I32,
    I64,
    INT,
    TEXT,
    Code,
    Held,
    NotKnownError,
    spelled,
)
from penstock.steps.compiled.loop_writer import LoopWriter

_HIGH = 0x8080808080808080
_TABLE_BITS_MAX = 12
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB)
_WORD_MASK = (1 << 64) - 1


def literal(m: LoopWriter, value: str | bytes) -> Held:
    """Return a text or bytes that are known when the function is built."""
    data = value.encode() if isinstance(value, str) else value
    made = m.constant(I8, list(data) or [0], f"text.{data.hex()}")
    kind = TEXT if isinstance(value, str) else BINARY
    return Held(kind, (m.address(made), I64(len(data))), value)


def text_of(m: LoopWriter, value: Held) -> Held:
    """Return a text of an Enum as a text."""
    if not isinstance(value.kind, Code):
        return value
    data = [each.encode() for each in value.kind.values]
    ends = [sum(map(len, data[:n])) for n in range(len(data) + 1)]
    name = b"\0".join(data).hex()
    letters = m.address(m.constant(I8, list(b"".join(data)) or [0], f"texts.{name}"))
    starts = m.address(m.constant(I32, ends, f"ends.{name}"))
    start, stop = (m.b.sext(m.load(starts, I32, m.b.add(value.only, I64(n))), I64) for n in (0, 1))
    return Held(TEXT, (m.b.add(letters, start), m.b.sub(stop, start)))


def equal(m: LoopWriter, left: Held, right: Held) -> Any:
    """Return the bit that says whether two texts are equal."""
    if isinstance(left.kind, Code) and isinstance(right.kind, Code) and left.kind == right.kind:
        return m.b.icmp_signed("==", left.only, right.only)
    for code, other in ((left, right), (right, left)):
        if isinstance(code.kind, Code) and isinstance(other.known, str):
            values = code.kind.values
            return m.b.icmp_signed("==", code.only, I64(values.index(other.known))) if other.known in values else I1(0)
    left, right = text_of(m, left), text_of(m, right)
    if left.kind != right.kind or left.kind not in (TEXT, BINARY):
        raise NotKnownError(f"{spelled(left.kind)} == {spelled(right.kind)}")
    return m.b.call(m.once("text_equal", partial(_write_equal, m)), [*left.leaves, *right.leaves])


def ordered(m: LoopWriter, sign: str, left: Held, right: Held) -> Any:
    """Return the bit of ``<``, ``<=``, ``>`` or ``>=`` between two texts."""
    left, right = text_of(m, left), text_of(m, right)
    if left.kind != right.kind or left.kind not in (TEXT, BINARY):
        raise NotKnownError(f"{spelled(left.kind)} {sign} {spelled(right.kind)}")
    shorter = m.b.icmp_signed("<", left.leaves[1], right.leaves[1])
    least = m.b.select(shorter, left.leaves[1], right.leaves[1])
    found = m.b.sext(_compare(m, left.leaves[0], right.leaves[0], least), I64)
    same = m.b.icmp_signed("==", found, I64(0))
    return m.b.icmp_signed(sign, m.b.select(same, m.b.sub(left.leaves[1], right.leaves[1]), found), I64(0))


def _compare(m: LoopWriter, left: Any, right: Any, size: Any) -> Any:
    return m.b.call(m.outside("memcmp", I32, (I64, I64, I64)), [left, right, size])


def _write_equal(m: LoopWriter, name: str) -> Any:
    with m.helper(name, I1, (I64, I64, I64, I64)) as made:
        left, size, right, other = made.args
        with m.b.if_then(m.b.icmp_signed("!=", size, other)):
            m.b.ret(I1(0))
        m.b.ret(m.b.icmp_signed("==", _compare(m, left, right, size), I32(0)))
    return made


def begins(m: LoopWriter, text: Held, part: Held, *, at_end: bool) -> Any:
    """Return the bit of ``startswith``, or of ``endswith``."""
    (address, size), (other, length) = text.leaves, part.leaves
    fits = m.b.icmp_signed(">=", size, length)
    start = m.b.add(address, m.b.sub(size, length)) if at_end else address
    found = m.local(I1)  # at the entry: an alloca in a loop takes more of the stack in each turn
    m.b.store(I1(0), found)
    with m.b.if_then(fits):
        m.b.store(m.b.icmp_signed("==", _compare(m, start, other, length), I32(0)), found)
    return m.b.load(found)


def find(m: LoopWriter, text: Held, part: Held) -> Any:
    """Return the first byte at which ``part`` is in ``text``, or -1."""
    (address, size), (other, length) = text.leaves, part.leaves
    place = m.b.call(m.outside("memmem", I64, (I64, I64, I64, I64)), [address, size, other, length])
    empty = m.b.icmp_signed("==", length, I64(0))
    missing = m.b.icmp_signed("==", place, I64(0))
    return m.b.select(empty, I64(0), m.b.select(missing, I64(-1), m.b.sub(place, address)))


def check_ascii(m: LoopWriter, text: Held) -> None:
    """Have Python run a record in which this text is not ASCII."""
    m.check(m.b.call(m.once("text_is_ascii", partial(_write_is_ascii, m)), list(text.leaves)))


def _write_is_ascii(m: LoopWriter, name: str) -> Any:
    with m.helper(name, I1, (I64, I64)) as made:
        address, size = made.args
        at, seen = m.b.alloca(I64), m.b.alloca(I64)
        m.b.store(I64(0), at)
        m.b.store(I64(0), seen)
        for step, kind in ((8, I64), (1, I8)):
            head, body, after = (m.b.append_basic_block(n) for n in ("head", "body", "after"))
            m.b.branch(head)
            m.b.position_at_end(head)
            here = m.b.load(at)
            beyond = m.b.add(here, I64(step))
            m.b.cbranch(m.b.icmp_signed("<=", beyond, size), body, after)
            m.b.position_at_end(body)
            found = m.load(m.b.add(address, here), kind)
            found = found if kind is I64 else m.b.zext(found, I64)
            m.b.store(m.b.or_(m.b.load(seen), found), seen)
            m.b.store(beyond, at)
            m.b.branch(head)
            m.b.position_at_end(after)
        m.b.ret(m.b.icmp_unsigned("==", m.b.and_(m.b.load(seen), I64(_HIGH)), I64(0)))
    return made


def length(m: LoopWriter, text: Held) -> Held:
    """Return how many characters a text has."""
    text = text_of(m, text)
    if text.kind == TEXT:
        check_ascii(m, text)
    return Held(INT, (text.leaves[1],))


def cut(m: LoopWriter, text: Held, start: Held | None, stop: Held | None) -> Held:
    """Return ``text[start:stop]``. Indexes may be negative, or beyond the text."""
    text = text_of(m, text)
    if text.kind == TEXT:
        check_ascii(m, text)
    address, size = text.leaves
    low = I64(0) if start is None else _within(m, start.only, size)
    high = size if stop is None else _within(m, stop.only, size)
    high = m.b.select(m.b.icmp_signed("<", high, low), low, high)
    return Held(text.kind, (m.b.add(address, low), m.b.sub(high, low)))


def _within(m: LoopWriter, index: Any, size: Any) -> Any:
    index = m.b.select(m.b.icmp_signed("<", index, I64(0)), m.b.add(index, size), index)
    index = m.b.select(m.b.icmp_signed("<", index, I64(0)), I64(0), index)
    return m.b.select(m.b.icmp_signed(">", index, size), size, index)


def character(m: LoopWriter, text: Held, index: Held) -> Held:
    """Return ``text[index]``. An index beyond the text fails the check."""
    text = text_of(m, text)
    if text.kind != TEXT:
        raise NotKnownError(f"{spelled(text.kind)}[...]")
    check_ascii(m, text)
    address, size = text.leaves
    at = m.b.select(m.b.icmp_signed("<", index.only, I64(0)), m.b.add(index.only, size), index.only)
    m.check(m.b.icmp_unsigned("<", at, size))
    return Held(TEXT, (m.b.add(address, at), I64(1)))


# --- Codes of texts of an Enum ------------------------------------------------------------------


def code_of(m: LoopWriter, values: tuple[str, ...], address: Any, size: Any) -> Held:
    """Return the text of an Enum that these bytes are. An unknown text fails the check."""
    name = f"code.{'.'.join(v.encode().hex() for v in values)}"
    found = m.b.call(m.once(name, partial(_write_code_of, m, values)), [address, size])
    m.check(m.b.icmp_signed(">=", found, I64(0)))
    return Held(Code(values), (found,))


def _write_code_of(m: LoopWriter, values: tuple[str, ...], name: str) -> Any:
    """Write the look-up in a table without collisions: one multiplication, and one comparison of the bytes."""
    data = [v.encode() for v in values]
    multiplier, bits = _table_of(data)
    codes = [-1] * (1 << bits)
    for code, each in enumerate(data):
        codes[_slot_of(each, multiplier, bits)] = code
    with m.helper(name, I64, (I64, I64)) as made:
        address, size = made.args
        word = m.b.call(m.once("text_word", partial(_write_word, m)), [address, size])
        slot = m.b.lshr(m.b.mul(word, I64(multiplier)), I64(64 - bits))
        code = m.b.sext(m.load(m.address(m.constant(I32, codes, f"{name}.codes")), I32, slot), I64)
        with m.b.if_then(m.b.icmp_signed("<", code, I64(0))):
            m.b.ret(code)
        expected = text_of(m, Held(Code(values), (code,)))
        if max(map(len, data)) <= _WORD_BYTES:  # the word has all bytes of the text
            words = m.address(m.constant(I64, list(map(_word_of, data)), f"{name}.words"))
            same_word = m.b.icmp_signed("==", m.load(words, I64, code), word)
            same = m.b.and_(same_word, m.b.icmp_signed("==", expected.leaves[1], size))
        else:
            same = equal(m, expected, Held(TEXT, (address, size)))
        m.b.ret(m.b.select(same, code, I64(-1)))
    return made


_WORD_BYTES = 8


def _word_of(data: bytes) -> int:
    """Return the word of a text, as :func:`_write_word` computes it: its first and last bytes."""
    size = len(data)
    number = partial(int.from_bytes, byteorder="little")
    if size >= 8:
        return number(data[:8]) ^ (number(data[-8:]) * 3 & _WORD_MASK) ^ size if size > 8 else number(data)
    if size >= 4:
        return number(data[:4]) | number(data[-4:]) << 32
    return data[0] | data[size >> 1] << 8 | data[-1] << 16 if size else 0


def _slot_of(data: bytes, multiplier: int, bits: int) -> int:
    return (_word_of(data) * multiplier & _WORD_MASK) >> (64 - bits)


def _table_of(data: list[bytes]) -> tuple[int, int]:
    """Return a multiplier and the bits of a table in which each text has a place of its own."""
    least = max(len(data).bit_length() + 1, 2)
    for bits in range(least, max(least, _TABLE_BITS_MAX) + 4):
        for number in range(400):
            multiplier = (_MULTIPLIERS[number % 5] * (2 * number + 1) ^ number << 40) & _WORD_MASK | 1
            if len({_slot_of(each, multiplier, bits) for each in data}) == len(data):
                return multiplier, bits
    raise NotKnownError("an Enum with texts that are so much alike")


def _write_word(m: LoopWriter, name: str) -> Any:
    """Write the load of a text's first and last bytes as one word; it reads no byte outside of the text."""
    with m.helper(name, I64, (I64, I64)) as made:
        address, size = made.args
        last = m.b.add(address, size)
        with m.b.if_then(m.b.icmp_signed("==", size, I64(8))):
            m.b.ret(m.load(address, I64))
        with m.b.if_then(m.b.icmp_signed(">", size, I64(8))):
            end = m.b.mul(m.load(m.b.sub(last, I64(8)), I64), I64(3))
            m.b.ret(m.b.xor(m.b.xor(m.load(address, I64), end), size))
        with m.b.if_then(m.b.icmp_signed(">=", size, I64(4))):
            low, high = (m.b.zext(m.load(each, I32), I64) for each in (address, m.b.sub(last, I64(4))))
            m.b.ret(m.b.or_(low, m.b.shl(high, I64(32))))
        with m.b.if_then(m.b.icmp_signed("==", size, I64(0))):
            m.b.ret(I64(0))
        places = address, m.b.add(address, m.b.lshr(size, I64(1))), m.b.sub(last, I64(1))
        one, two, three = (m.b.zext(m.load(each, I8), I64) for each in places)
        m.b.ret(m.b.or_(m.b.or_(one, m.b.shl(two, I64(8))), m.b.shl(three, I64(16))))
    return made
