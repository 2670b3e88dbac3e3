"""Which proxy stands between here and a server, as the environment says it. It connects to nothing."""

from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rowcrew.agent.model_errors import mask
from rowcrew.errors import InvalidRequest

_KNOWN_SCHEMES = ("http", "https")


def proxy_for(url: str) -> str | None:
    """The proxy's address, from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. Raises InvalidRequest.

    A server on this machine is asked directly, also where NO_PROXY does not say so: a proxy would look for it
    on its own machine.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_here(host) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found:
        return None
    proxy = found if "://" in found else f"http://{found}"
    if urlsplit(proxy).scheme not in _KNOWN_SCHEMES:
        raise InvalidRequest(
            f"the proxy {mask(proxy)!r} that the environment names cannot be used",
            hint=f"name one that speaks HTTP, or add {host} to NO_PROXY",
        )
    return proxy


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
