"""Requests to a collector, and its answers as text."""

from __future__ import annotations

import http.client

from normal import parsed

USUAL = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers of every answer, written down as one line; "usual" names its type where it is plain JSON."""
LEFT_OUT = {"date", "server", "content-length"}


class Talk:  # what is asked of one collector and what it answers, as text
    def __init__(self, address):
        self.address, self._host = address, address.removeprefix("http://")
        self.text = ""
        self.body = b""

    def ask(self, path, body=None, *, method="", about="", **headers):
        """Ask once on a connection of its own, and write the answer down."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self._host, timeout=30)
        connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
        answer = connection.getresponse()
        self.body = answer.read()
        connection.close()
        got = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in LEFT_OUT}
        lines = [f"{name}: {value}" for name, value in sorted(got.items())]
        if USUAL.items() <= got.items():
            rest = got.items() - USUAL.items() - {("content-type", "application/json")}
            lines = ["the usual headers", *(f"{name}: {value}" for name, value in sorted(rest))]
        shown = {name: text if name != "authorization" else text.split(" ")[0] + " ..." for name, text in sent.items()}
        asked = " ".join(
            (method or ("GET" if body is None else "POST"), path, *(f"{k}: {v}" for k, v in shown.items()))
        )
        self.text += "\n".join((f"== {about or asked}", str(answer.status), *lines, ""))
        return self

    def shown(self):
        """Write the body of the last answer down."""
        text = self.body.decode("utf-8")
        self.text += f"{parsed(text)}\n"
        return self
