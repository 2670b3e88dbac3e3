"""The one table of methods, and the two that belong to no noun: initialize and model/list."""

import sys
from importlib.metadata import version

from rowcrew.appserver import errors
from rowcrew.appserver import protocol as wire
from rowcrew.appserver.catalogue import METHODS
from rowcrew.appserver.connection import Connection, Method, Run
from rowcrew.appserver.entities import Wire
from rowcrew.appserver.errors import RpcError
from rowcrew.appserver.job_methods import JobMethods
from rowcrew.appserver.queue_methods import QueueMethods
from rowcrew.appserver.services import Services
from rowcrew.appserver.thread_methods import ThreadMethods

# The release of Codex whose app-server the messages are those of. Its clients look at it before they use
# what came late, so that it, and not rowcrew's own version, is what they are told.
PROTOCOL_VERSION = "0.163.0"


class MethodTable:
    """All methods by their names."""

    def __init__(self, services: Services) -> None:
        self._services = services
        runs: dict[str, Run] = {
            "initialize": self.initialize,
            "model/list": self.list_models,
            **ThreadMethods(services).table(),
            **QueueMethods(services).table(),
            **JobMethods(services).table(),
        }
        self._methods = {name: Method(*METHODS[name], run) for name, run in runs.items()}

    def find(self, name: str) -> Method | None:
        return self._methods.get(name)

    async def initialize(self, connection: Connection, params: wire.InitializeParams) -> Wire:
        peer = connection.peer
        if peer.initialized:
            raise RpcError(errors.INVALID_REQUEST, "Already initialized")
        peer.initialized = True
        peer.client_name = params.client_info.name
        if params.capabilities is not None:
            peer.opted_out = frozenset(params.capabilities.opt_out_notification_methods or ())
        return wire.InitializeResponse(
            user_agent=f"rowcrew/{version('rowcrew')} (app-server of Codex {PROTOCOL_VERSION})",
            server_info=wire.ServerInfo(name="rowcrew", version=PROTOCOL_VERSION),
            codex_home=str(self._services.engine.home),
            platform_family="unix",
            platform_os="macos" if sys.platform == "darwin" else "linux",
        )

    async def list_models(self, _: Connection, _params: wire.ModelListParams) -> Wire:
        """The models that are named in the settings, and the embedded one. Any other may be named as well."""
        configured = self._services.engine.settings.model
        names = list(dict.fromkeys([*([configured] if configured else []), "local"]))
        return wire.ModelListResponse(
            data=[_model(name, is_default=name == configured) for name in names], next_cursor=None
        )


def _model(name: str, *, is_default: bool) -> wire.WireModel:
    said = "the embedded model, needs no key" if name == "local" else "the model of the settings"
    return wire.WireModel(
        id=name, model=name, display_name=name, description=said, hidden=False, is_default=is_default
    )
