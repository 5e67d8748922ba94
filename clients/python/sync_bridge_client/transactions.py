"""Transactions: requests whose writes become visible at once, or not at all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from .answers import Requested, TransactionResponse, transaction_responses
from .errors import ClientError
from .transport import Requests

_STRICT = "handling=strict"


@dataclass(frozen=True)
class TransactionRequest:
    """One request of a transaction; `data` has the fields to write: `payload`, `sortindex`, `ttl`."""

    method: Literal["GET", "PUT", "DELETE"]
    collection: str
    id: str
    headers: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] | None = None


def send_transaction(
    bridge: Requests, path: str, requests: Iterable[TransactionRequest], strict: bool = False
) -> tuple[list[TransactionResponse], bool]:
    """Sends requests as one transaction; `path` is that of the account's collections.

    A strict one writes nothing if any request would be refused; the second result says whether the bridge supports that.
    """
    below: list[dict[str, Any]] = []
    requested: list[Requested] = []
    for request in requests:
        place = f"{path}{quote(request.collection, safe='')}/records/{quote(request.id, safe='')}"
        each: dict[str, Any] = {"method": request.method, "path": place}
        if request.headers:
            each["headers"] = dict(request.headers)
        if request.data is not None:
            each["body"] = {"data": dict(request.data)}
        below.append(each)
        requested.append(Requested(request.method, place, request.id))
    answer = bridge.ask("/batch", "POST", {"requests": below}, {"Prefer": _STRICT} if strict else None)
    responses = transaction_responses(answer.body, requested)
    if responses is None:
        raise ClientError(
            "The bridge sent responses that do not match the requests: it is unknown what was written."
            " Check before you repeat it.",
            may_be_applied=True,
        )
    return responses, _STRICT in answer.headers.get("Preference-Applied", "")
