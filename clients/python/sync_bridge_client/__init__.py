"""A client for Sync Bridge: reads, decrypts and writes the collections of a Firefox account.

The key never leaves the program.
"""

from .account import Account, check_account, format_account, parse_account, read_account_file
from .bookmarks import BOOKMARK_ROOTS, BookmarkNode, bookmark_tree, folders_named, walk
from .collection import Collection, CollectionInfo, Count, Page, StoredRecord, SyncRecord, is_readable
from .crypto import (
    ClearRecord,
    KeyPair,
    UnreadableRecord,
    collection_keys,
    decrypt_record,
    decrypt_records,
    encrypt_record,
    key_pair_from_hex,
)
from .errors import AccountField, ClientError
from .fields import text_of
from .new_bookmark import AddedBookmark, add_bookmark, check_url
from .sync_client import BridgeInfo, SyncClient, TransactionRequest, TransactionResponse, connect
from .tokens import is_renewable, renew_token, revoke_refresh_token
from .transport import ClientOptions

__all__ = [
    "BOOKMARK_ROOTS",
    "Account",
    "AccountField",
    "AddedBookmark",
    "BookmarkNode",
    "BridgeInfo",
    "ClearRecord",
    "ClientError",
    "ClientOptions",
    "Collection",
    "CollectionInfo",
    "Count",
    "KeyPair",
    "Page",
    "StoredRecord",
    "SyncClient",
    "SyncRecord",
    "TransactionRequest",
    "TransactionResponse",
    "UnreadableRecord",
    "add_bookmark",
    "bookmark_tree",
    "check_account",
    "check_url",
    "collection_keys",
    "connect",
    "decrypt_record",
    "decrypt_records",
    "encrypt_record",
    "folders_named",
    "format_account",
    "is_readable",
    "is_renewable",
    "key_pair_from_hex",
    "parse_account",
    "read_account_file",
    "renew_token",
    "revoke_refresh_token",
    "text_of",
    "walk",
]
