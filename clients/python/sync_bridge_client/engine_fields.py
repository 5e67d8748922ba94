"""The fields of records, made from src/client/engine-records.ts by `make pages`."""

# The types of the fields of each collection.
FIELDS: dict[str, dict[str, str]] = {
    "bookmarks": {
        "type": "text",
        "title": "text",
        "bmkUri": "text",
        "feedUri": "text",
        "siteUri": "text",
        "tags": "texts",
        "keyword": "text",
        "description": "text",
        "parentid": "text",
        "parentName": "text",
        "children": "ids",
        "dateAdded": "number",
    },
    "history": {
        "histUri": "text",
        "title": "text",
        "visits": "records",
    },
    "passwords": {
        "hostname": "text",
        "formSubmitURL": "text",
        "httpRealm": "text",
        "username": "text",
        "password": "text",
        "usernameField": "text",
        "passwordField": "text",
        "timeCreated": "number",
        "timeLastUsed": "number",
        "timePasswordChanged": "number",
    },
    "forms": {
        "name": "text",
        "value": "text",
    },
    "tabs": {
        "clientName": "text",
        "tabs": "records",
    },
    "clients": {
        "name": "text",
        "type": "text",
        "formfactor": "text",
        "os": "text",
        "version": "text",
    },
    "addresses": {
        "entry": "record",
    },
    "creditcards": {
        "entry": "record",
    },
    "prefs": {
        "value": "record",
    },
    "extension-storage": {
        "extId": "text",
        "data": "text",
    },
    "addons": {
        "addonID": "text",
    },
    "meta": {
        "engines": "record",
        "declined": "texts",
    },
    "crypto": {
    },
}

# The fields that may name a record of each collection, and the field that holds them, if it is not the record itself.
NAMES: dict[str, tuple[str | None, list[str]]] = {
    "bookmarks": (None, ["title"]),
    "history": (None, ["title"]),
    "passwords": (None, ["hostname"]),
    "forms": (None, ["name"]),
    "tabs": (None, ["clientName"]),
    "clients": (None, ["name"]),
    "addresses": ("entry", ["name", "cc-name", "title"]),
    "creditcards": ("entry", ["name", "cc-name", "title"]),
    "prefs": (None, []),
    "extension-storage": (None, ["extId"]),
    "addons": (None, ["addonID"]),
    "meta": (None, ["id"]),
    "crypto": (None, ["id"]),
}
OTHER_NAMES: tuple[str | None, list[str]] = (None, ["title", "name", "guid"])
