"""Errors of the client; their messages are meant for users."""

from typing import Literal

AccountField = Literal["token", "key_id", "bucket", "sync_key", "bridge_url"]


class ClientError(Exception):
    """An error of the client; its message is meant for users.

    `field` names the account value that has to change; `status` and `errno` are those of the response. Each may be None.
    `may_be_applied`: whether the response to a write was lost, so that it may have been applied.
    """

    def __init__(
        self,
        message: str,
        *,
        field: AccountField | None = None,
        status: int | None = None,
        errno: int | None = None,
        may_be_applied: bool = False,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.status = status
        self.errno = errno
        self.may_be_applied = may_be_applied
