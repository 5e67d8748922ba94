"""Errors of the client; their messages are meant for users."""

from typing import Literal

AccountField = Literal["token", "key_id", "bucket", "sync_key", "bridge_url"]


class ClientError(Exception):
    """An error of the client; its message is meant for users.

    `field` names the account value that has to change; `status` and `errno` are those of the response. Each may be None.
    """

    def __init__(
        self,
        message: str,
        *,
        field: AccountField | None = None,
        status: int | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.status = status
        self.errno = errno
