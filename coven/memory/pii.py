"""Personal data in texts that want to be remembered: mail addresses, phones, accounts, cards.

Checksums (ISO 13616 mod 97, ISO/IEC 7812 Luhn) keep numbers of programs out. All searches are
linear. A hit refuses an entry, so what looks like a person in doubt counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from coven.redaction.views import readings

_MAIL = re.compile(
    r"(?<![A-Za-z0-9._%+\-])([A-Za-z0-9._%+\-]{1,64})@((?:[A-Za-z0-9\-]{1,63}\.){1,8}[A-Za-z]{2,24})"
    r"(?![A-Za-z0-9\-])"
)
_NOBODY = frozenset({"git", "noreply", "no-reply", "donotreply", "do-not-reply"})
_EXAMPLES = ("example.com", "example.org", "example.net")
_NO_REPLY_HOST = "users.noreply.github.com"

_PHONES = (
    # International: a plus, a country, and 8 to 15 digits in groups.
    re.compile(r"(?<![\w+])\+[1-9](?:[ ().\-]{0,2}\d){7,14}(?![\w])(?!\.\d)"),
    # North American, written in its groups.
    re.compile(r"(?<![\w.\-])(?:\(\d{3}\) ?|\d{3}-)\d{3}-\d{4}(?![\w\-])"),
    # A trunk zero in brackets or groups, as in "(020) 7946 0958" and "020 7946 0958".
    re.compile(r"(?<![\w.\-(])\(?0\d{2,4}\)?[ \-]\d{3,4}[ \-]\d{3,4}(?![\w\-])"),
    # Whatever calls itself one.
    re.compile(
        r"(?i)(?<![a-z])(?:phone|tel|telephone|mobile|cell|fax|whatsapp)\b[ .:=#]{0,4}"
        r"(?:\d[ ().\-]{0,2}){6,14}\d"
    ),
)

_IBAN_START = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}")
_IBAN_CHARS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "PT",
        26: "IS TR",
        27: "FR GR IT MC MR SM",
        28: "AL AZ CY DO GT HU LB PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU",
        31: "MT SC",
    }.items()
    for country in countries.split()
}

_CARD = re.compile(r"(?<![\w.\-])\d(?:[ \-]?\d){12,18}(?![\w\-])(?!\.\d)")
_ISSUERS = re.compile(
    r"(?:4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35\d{14})\Z"
)


def personal_data(text: str) -> str | None:
    """What kind of personal data the text holds (``email``, ``phone``, ``iban``, ``card``).

    Characters that hide a split, and letters in another dress, are seen through.
    """
    return next(_kinds(text), None)


def _kinds(text: str) -> Iterator[str]:
    for view in readings(text):
        shown = view.text
        if "@" in shown and any(_somebody(*match.groups()) for match in _MAIL.finditer(shown)):
            yield "email"
        if sum(map(str.isdigit, shown)) < 7:
            continue
        # Before phones: the groups of an account number could be taken for one.
        if any(_is_iban(shown, match.start()) for match in _IBAN_START.finditer(shown)):
            yield "iban"
        if any(_is_card(match[0]) for match in _CARD.finditer(shown)):
            yield "card"
        if any(pattern.search(shown) for pattern in _PHONES):
            yield "phone"


def _somebody(local: str, host: str) -> bool:
    local, host = local.casefold(), host.casefold()
    return not (
        local in _NOBODY
        or host == _NO_REPLY_HOST
        or any(host == name or host.endswith(f".{name}") for name in _EXAMPLES)
    )


def _is_iban(text: str, start: int) -> bool:
    length = _IBAN_CHARS.get(text[start : start + 2].upper())
    if length is None:
        return False
    taken: list[str] = []
    position = start
    while len(taken) < length:
        char = text[position : position + 1]
        if char in {" ", "-"} and text[position - 1] not in {" ", "-"}:
            position += 1
            continue
        if not (char.isascii() and char.isalnum()):
            return False
        taken.append(char.upper())
        position += 1
    after = text[position : position + 1]
    if after.isascii() and after.isalnum():
        return False
    turned = "".join(taken[4:] + taken[:4])
    return int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


def _is_card(written: str) -> bool:
    digits = re.sub(r"[ \-]", "", written)
    if not _ISSUERS.match(digits):
        return False
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
