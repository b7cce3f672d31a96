"""`traindx serve [DIR]`"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from pathlib import Path

import psutil
import rich_click as click

from traindx import alerts, settings
from traindx.cli import options
from traindx.dashboard.library import Library
from traindx.errors import EnvironmentFault, UsageError
from traindx.plain import say
from traindx.report.words import safe

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104


@click.command("serve")
@click.argument("folder", type=click.Path(path_type=Path), callback=options.runs_folder, required=False, metavar="[DIR]")
@click.option("--port", type=click.IntRange(0, 65535), default=7007, show_default=True, help="Port; 0 takes any free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Any address but loopback shows your runs to the network, protected by the key.",
)
@click.option(
    "--allow-host", "allowed", multiple=True, metavar="NAME", help="Also answer to this host name, such as that of a proxy."
)
@click.option(
    "--alert",
    multiple=True,
    metavar="URL",
    help="Send an alert to this URL for each new finding in a running training.  [env: TRAINDX_ALERT]",
)
def command(folder: Path, port: int, host: str, allowed: tuple[str, ...], alert: tuple[str, ...]) -> int:
    """Open a live dashboard in the browser: all runs and their findings; read-only, on this machine.

    Example:  traindx serve traindx-runs
    """
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}; record a run first: traindx run train.py")
    import uvicorn

    from traindx.dashboard.connections import Connection, quiet
    from traindx.dashboard.doctor import Doctor
    from traindx.dashboard.guard import new_token
    from traindx.dashboard.server import create_app, packed_plotly

    addresses = alerts.addresses_of(alert or None, settings.load(warn=say).alerts)
    sock = _socket(host, port)
    port = sock.getsockname()[1]
    fixed = os.environ.get("TRAINDX_TOKEN")
    token = fixed or new_token()
    names = (*_names(host), *allowed)
    bound = sock.getsockname()[0]
    shown = socket.gethostname() if host in EVERYWHERE else f"[{bound}]" if ":" in bound else bound
    say(f"http://{shown}:{port}/?token={token}")
    if host not in LOOPBACK:
        say("listening beyond this machine; whoever has the key above can read your runs")
    elif os.environ.get("SSH_CONNECTION"):
        say(f"over SSH, on your own machine: ssh -N -L 127.0.0.1:{port}:{shown}:{port} {socket.gethostname()}")
    threading.Thread(target=packed_plotly, daemon=True, name="traindx-plotly").start()  # so that the first page need not wait
    doctor = Doctor()
    renewed = None if fixed else (lambda code: say(f"for another browser: http://{shown}:{port}/?token={code}"))
    app = create_app(folder, token, names, doctor, port=port, renewed=renewed)
    if addresses:
        Herald(app.state.library, alerts.Alerts(alerts.everyone(addresses))).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        timeout_keep_alive=10,
        h11_max_incomplete_event_size=16_384,
        timeout_graceful_shutdown=1,
    )
    quiet()
    try:
        uvicorn.Server(config).run(sockets=[sock])
    finally:
        doctor.close()
    return 0


def _names(host: str) -> tuple[str, ...]:
    """What a browser may call this server: beyond loopback every address and name of the machine that it listens on."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    if host in LOOPBACK:
        return tuple(names)
    given = [host, socket.gethostname(), socket.getfqdn()]
    if host in EVERYWHERE:
        own = (a.address.partition("%")[0] for found in psutil.net_if_addrs().values() for a in found)
        given += [a for a in own if a.count(".") == 3 or a.count(":") >= 2]
    return tuple(dict.fromkeys([*names, *(f"[{n}]" if ":" in n else n for n in given)]))


class Herald(threading.Thread):
    """Checks the running runs of a library regularly and sends an alert for what is new in each."""

    def __init__(self, library: Library, told: alerts.Alerts, every_s: float = 10.0) -> None:
        super().__init__(daemon=True, name="traindx-herald")
        self.library, self.told, self.every_s = library, told, every_s

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(self.every_s)

    def look(self) -> int:
        """How many messages went out."""
        sent = 0
        for entry in self.library.entries():
            health = self.library.health(entry) if entry.state == "running" else None
            if health and health["severity"] in ("critical", "warning"):
                key = f"{entry.id}:{health['cause'] or health['finding']['code']}"
                title = f"traindx: {health['verdict'].replace('-', ' ')}"
                sent += self.told.tell(key, title, f"{safe(health['summary'], 500)}\n{safe(entry.name, 200)}")
        return sent


def _socket(host: str, port: int) -> socket.socket:
    host = "127.0.0.1" if host == "localhost" else host  # one literal address: what is printed is what is bound
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)  # whoever opens the printed address at once waits a moment instead of being refused
    except OSError as why:
        sock.close()
        if why.errno == errno.EADDRINUSE:
            raise EnvironmentFault(f"port {port} is taken; try --port {port + 1} or --port 0") from None
        raise EnvironmentFault(f"cannot listen on {host}:{port}: {why.strerror}") from None
    return sock
