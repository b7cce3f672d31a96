"""`traindx serve [DIR]`"""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
from pathlib import Path

import rich_click as click

from traindx import alerts
from traindx.dashboard.library import Library
from traindx.errors import EnvironmentFault, UsageError
from traindx.report.words import safe

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command("serve")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("traindx-runs"), metavar="[DIR]")
@click.option("--port", type=click.IntRange(0, 65535), default=7007, show_default=True, help="0 takes any free port.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Anything but loopback shows your runs to the network, behind the key.",
)
@click.option(
    "--alert", multiple=True, metavar="URL", help="Send word of new causes in running runs there.  [env: TRAINDX_ALERT]"
)
@click.option("--debug", is_flag=True, hidden=True)
def command(folder: Path, port: int, host: str, alert: tuple[str, ...], debug: bool) -> int:
    """Live dashboard in the browser: all runs at a glance, findings as they appear; read-only, on this machine.

    Example:  traindx serve traindx-runs
    """
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}; record a run first: traindx run train.py")
    import uvicorn

    from traindx.dashboard.doctor import Doctor
    from traindx.dashboard.guard import new_token
    from traindx.dashboard.server import create_app, packed_plotly

    addresses = alerts.addresses_of(alert or None)
    sock = _socket(host, port)
    port = sock.getsockname()[1]
    token = os.environ.get("TRAINDX_TOKEN") or new_token()
    names = (
        ("127.0.0.1", "localhost", "[::1]")
        if host in LOOPBACK
        else ("127.0.0.1", "localhost", "[::1]", host, socket.gethostname())
    )
    sys.stderr.write(f"traindx: http://{'localhost' if host in LOOPBACK else host}:{port}/?token={token}\n")
    if host not in LOOPBACK:
        sys.stderr.write("traindx: listening beyond this machine; whoever has the key above can read your runs\n")
    elif os.environ.get("SSH_CONNECTION"):
        sys.stderr.write(f"traindx: over SSH, on your own machine: ssh -N -L {port}:localhost:{port} {socket.gethostname()}\n")
    threading.Thread(target=packed_plotly, daemon=True, name="traindx-plotly").start()  # so that the first page need not wait
    doctor = Doctor()
    app = create_app(folder, token, names, doctor)
    if addresses:
        Herald(app.state.library, alerts.Alerts(alerts.everyone(addresses))).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    try:
        uvicorn.Server(config).run(sockets=[sock])
    finally:
        doctor.close()
    return 0


class Herald(threading.Thread):
    """Looks at the running runs of a library now and then and sends word of what is new in each."""

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
