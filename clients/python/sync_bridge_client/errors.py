"""What can go wrong, in words for the person in front of it."""

from __future__ import annotations

from typing import Literal, Optional

AccountField = Literal["token", "key_id", "bucket", "sync_key", "bridge_url"]


class ClientError(Exception):
    """Why a client cannot go on.

    `field` names the value of the account that has to be another one, `status` and `errno` are those of the bridge's answer. Each may be
    None.
    """

    def __init__(
        self,
        message: str,
        *,
        field: Optional[AccountField] = None,
        status: Optional[int] = None,
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.status = status
        self.errno = errno
