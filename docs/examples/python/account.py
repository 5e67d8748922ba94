"""An account behind Sync Bridge, with an access token that renews itself: bridge.js and account.ts in Python, without a package.

Its values come from the environment, or, if there is no BUCKET, from a file of lines NAME=value: the one that ACCOUNT_FILE names, else
`account.env` in the current folder. With REFRESH_TOKEN, TOKEN_ENDPOINT and CLIENT_ID among them a token that has ended is replaced
by a new one, in the file, too. Two programs may do so at the same time.
"""

import http.client
import json
import os
import re
import sys
import tempfile
import urllib.error
import urllib.request

SCOPE = "https://identity.mozilla.com/apps/oldsync"


class Refused(Exception):
    """What an answer says went wrong."""

    def __init__(self, status, body):
        self.status = status
        self.errno = body.get("errno")
        super().__init__(f"{status} {body.get('message', 'and no JSON, is this its address?')}")


class Account:
    def __init__(self, *more):
        """Takes the values, of `more` names, too; ends the program with the names of what is missing."""
        self.path = os.environ.get("ACCOUNT_FILE") or "account.env"
        self.values = dict(os.environ) if os.environ.get("BUCKET") else _read_values(self.path)
        names = ["BRIDGE_URL", "BUCKET", "BEARER_TOKEN", "KEY_ID", *more]
        missing = [name for name in names if not self.values.get(name)]
        if missing:
            sys.exit(f"Set {', '.join(missing)}: docs/connect.md tells where to get them")
        self.url = f"{self.values['BRIDGE_URL'].rstrip('/').removesuffix('/v1')}/v1"

    def list(self, path):
        """All records of a path below the bucket, such as "/collections/bookmarks/records"."""
        records = []
        url = f"{self.url}/buckets/{self.values['BUCKET']}{path}"
        while url:
            body, headers = self._ask(url)
            records += body["data"] if isinstance(body["data"], list) else [body["data"]]
            url = headers.get("Next-Page")
        return records

    def batch(self, requests):
        """Sends many requests, which are carried out all or none. Paths are below the bucket. Returns their responses."""
        below = [{**each, "path": f"/buckets/{self.values['BUCKET']}{each['path']}"} for each in requests]
        body, _ = self._ask(f"{self.url}/batch", {"requests": below})
        return body["responses"]

    def _ask(self, url, body=None):
        # What was sent may have been carried out.
        lost = body and "No answer came: nobody knows whether this was written. Look before you repeat it"
        try:
            return _send(url, body, self._identity(), lost)
        except Refused as refused:
            if refused.status != 401 or not self._can_renew():
                raise
        self.renew()
        return _send(url, body, self._identity(), lost)

    def _identity(self):
        return {"Authorization": f"Bearer {self.values['BEARER_TOKEN']}", "X-KeyID": self.values["KEY_ID"]}

    def _can_renew(self):
        return all(self.values.get(name) for name in ["REFRESH_TOKEN", "TOKEN_ENDPOINT", "CLIENT_ID"])

    def renew(self):
        """Gets a new access token, and writes it into the file that the account came from."""
        wanted = {"grant_type": "refresh_token", "client_id": self.values["CLIENT_ID"], "scope": SCOPE, "ttl": 3600}
        wanted["refresh_token"] = self.values["REFRESH_TOKEN"]
        try:
            answer, _ = _send(self.values["TOKEN_ENDPOINT"], wanted, {})
        except Refused as refused:
            # The account server's own endpoint, and that of its OAuth service: each numbers its errors itself.
            if (refused.status, refused.errno) in [(401, 110), (400, 108)]:
                sys.exit(
                    "The refresh token was revoked, or the password was changed: "
                    "get new values with the recipe of docs/connect.md"
                )
            # Such a check stands in front of Mozilla's, and wants a browser.
            if refused.status == 406:
                sys.exit(
                    "Cannot renew the access token: the account server lets only browsers in from here (406). Try again later or "
                    "from another network, or get new values with the recipe of docs/connect.md"
                )
            sys.exit(f"Cannot renew the access token: the account server answers {refused}")
        token = str(answer.get("access_token"))
        # The token becomes a line of a file that shells read.
        if not re.fullmatch(r"[\w.~+/=-]+", token, re.ASCII):
            sys.exit("Cannot renew the access token: the account server answers something else")
        self.values["BEARER_TOKEN"] = token
        self._keep(token)

    def _keep(self, token):
        # Somebody may have put another account's values there meanwhile.
        if _read_values(self.path).get("REFRESH_TOKEN") != self.values["REFRESH_TOKEN"]:
            return
        try:
            path = os.path.realpath(self.path)
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"^((?:export )?BEARER_TOKEN=).*$", rf"\g<1>{token}", file.read(), count=1, flags=re.M)
            # Made with mode 0600, under a name that nobody else has.
            descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix="account.env.")
            try:
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(descriptor)
                os.replace(draft, path)
            except OSError:
                os.unlink(draft)
                raise
        except OSError as error:
            print(f"The new access token is not in {self.path}, the next run will need another: {error}", file=sys.stderr)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Tokens go nowhere else."""

    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _send(url, body, headers, lost=None):
    """The JSON of an answer, and its headers. Ends the program where an answer is lost, with the text `lost` if there is one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"})
    try:
        answer = _opener.open(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    except (OSError, http.client.HTTPException) as error:
        sys.exit(lost or f"Nobody answers at {request.host}: {getattr(error, 'reason', error)}")
    try:
        with answer:
            text = answer.read()
    except (OSError, http.client.HTTPException):
        sys.exit(lost or "The answer broke off: the storage failed, or the connection. Ask again")
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Refused(answer.status, {})
    if answer.status >= 300:
        raise Refused(answer.status, content)
    return content, answer.headers


def _read_values(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = re.findall(r"""^(?:export )?([A-Z_]+)=(["']?)(.*)\2$""", file.read(), re.M)
    except OSError:
        return {}
    return {name: value for name, _, value in lines}
