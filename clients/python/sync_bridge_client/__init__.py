"""A client for Sync Bridge: reads, decrypts and writes the collections of a Firefox account.

The key never leaves the program.
"""

from .account import Account, check_account, format_account, parse_account, read_account_file
from .answers import BridgeInfo, CollectionInfo, StoredRecord, TransactionResponse
from .bookmarks import BOOKMARK_ROOTS, BookmarkNode, bookmark_tree, folder_named, folders_named, walk
from .changes import changes
from .collection import Collection, Count, Page, SyncRecord, is_readable
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
from .edit.edits import AddEdit, ChangeEdit, Edit, MoveEdit, Problem, RemoveEdit
from .edit.save import SaveResult
from .edit.saved import Saved, SavedRecord
from .edit.tree import Item, Tree, folder_called
from .engines import (
    Bookmark,
    Device,
    ExtensionData,
    FormEntry,
    Login,
    Tab,
    Visit,
    VisitedPage,
    describe_record,
    fault_of,
    is_usable,
    name_record,
    read_bookmark,
    read_device,
    read_entry,
    read_extension_data,
    read_form_entry,
    read_login,
    read_preferences,
    read_tabs,
    read_visited_page,
)
from .errors import AccountField, ClientError
from .export_formats import EXPORT_FORMATS
from .fields import text_of
from .record_formats import DeviceTabs, device_tabs
from .safe_text import for_html, for_markdown, for_spreadsheet, json_text, markdown_link, printable
from .sync_client import SyncClient, connect
from .transactions import TransactionRequest
from .tokens import is_renewable, renew_token, revoke_refresh_token
from .transport import ClientOptions

__all__ = [
    "BOOKMARK_ROOTS",
    "EXPORT_FORMATS",
    "Account",
    "AccountField",
    "AddEdit",
    "Bookmark",
    "BookmarkNode",
    "BridgeInfo",
    "ChangeEdit",
    "ClearRecord",
    "ClientError",
    "ClientOptions",
    "Collection",
    "CollectionInfo",
    "Count",
    "Device",
    "DeviceTabs",
    "Edit",
    "ExtensionData",
    "FormEntry",
    "Item",
    "KeyPair",
    "Login",
    "MoveEdit",
    "Page",
    "Problem",
    "RemoveEdit",
    "SaveResult",
    "Saved",
    "SavedRecord",
    "StoredRecord",
    "SyncClient",
    "SyncRecord",
    "Tab",
    "TransactionRequest",
    "TransactionResponse",
    "Tree",
    "UnreadableRecord",
    "Visit",
    "VisitedPage",
    "bookmark_tree",
    "changes",
    "check_account",
    "collection_keys",
    "connect",
    "decrypt_record",
    "decrypt_records",
    "describe_record",
    "device_tabs",
    "encrypt_record",
    "fault_of",
    "folder_called",
    "folder_named",
    "folders_named",
    "for_html",
    "for_markdown",
    "for_spreadsheet",
    "format_account",
    "is_readable",
    "is_renewable",
    "is_usable",
    "json_text",
    "key_pair_from_hex",
    "markdown_link",
    "name_record",
    "parse_account",
    "printable",
    "read_account_file",
    "read_bookmark",
    "read_device",
    "read_entry",
    "read_extension_data",
    "read_form_entry",
    "read_login",
    "read_preferences",
    "read_tabs",
    "read_visited_page",
    "renew_token",
    "revoke_refresh_token",
    "text_of",
    "walk",
]
