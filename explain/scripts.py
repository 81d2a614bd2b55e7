"""The large scripts of components, served as files: a browser loads each of them once.

Streamlit puts a component's script into each message of the component, and the player's is several times as long as
its run. Here the message has a few lines that load the script, from an address that names its content.
"""

from __future__ import annotations

import functools
import gzip
import hashlib

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

FOLDER = "scripts"
_TEXTS: dict[str, str] = {}
"""By file."""
_LOADER = """const address = new URL("%s", globalThis.__streamlit?.BACKEND_BASE_URL ?? location.href).href;
let loaded;
for (let tries = 0; !loaded; tries++) {
  try {
    loaded = await import(tries ? `${address}?${tries}` : address);   // a browser may remember that an address failed
  } catch (error) {
    if (tries === 6) throw error;
    await new Promise((soon) => setTimeout(soon, 250 * 2 ** tries));  // the network may be gone for a moment
  }
}
export default loaded.default;
"""


def served(name: str, text: str) -> str:
    """The address of a script, an ES module, from the app's root. The server has it from now on."""
    file = f"{name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.js"
    _TEXTS[file] = text
    return f"{FOLDER}/{file}"


def loader(address: str) -> str:
    """A component's `js` that is the script at this address."""
    return _LOADER % address


def route() -> Route:
    """Where the server has the scripts."""
    return Route(f"/{FOLDER}/{{file}}", _answer)


def _answer(request: Request) -> Response:
    if (file := request.path_params["file"]) not in _TEXTS:
        return PlainTextResponse("There is no such script.\n", 404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(_TEXTS[file], media_type="text/javascript", headers=headers)
    return Response(_packed(file), media_type="text/javascript", headers={**headers, "Content-Encoding": "gzip"})


@functools.cache
def _packed(file: str) -> bytes:
    return gzip.compress(_TEXTS[file].encode(), mtime=0)
