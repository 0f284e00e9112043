"""One kept connection to a machine, made by the user's own ssh.

The program ssh brings the user's configuration, agent, known hosts and jump hosts. One process of
it holds the connection; whatever we run shares that (ControlMaster), through a socket in a folder
of ours. When the connection is lost it is made again, until a limit.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from cnibench.clusters.ssh.address import Address
from cnibench.clusters.ssh.failures import explained
from cnibench.errors import ClusterError, CnibenchError, LimitError
from cnibench.system import boot, scratch
from cnibench.system import process as programs
from cnibench.system.process import Done, Errors, Process

LOST = 255  # ssh's own exit status
_CONNECT = 15.0  # s
_PATIENCE = 180.0  # s that a machine may be away: one that reboots comes back within
_AGAIN = 2.0  # s between attempts
_NOTICED = 20.0  # s until a connection that was lost has ended here
_BEAT = 5.0  # s between two lines for the command that is held
_HELD = 3  # exit status of a command to hold when somebody else holds it
# Says that it is up, and which start of the machine this is; then it lasts until our end of its
# standard input is closed.
_UP = f"sh -c 'echo up; cat {' '.join(boot.FILES)} 2>/dev/null; echo; exec cat'"
# Without its master, ssh would make a connection of its own: to another machine, where only the
# master was given a port.
_SHARED = ("-oClearAllForwardings=yes", "-oProxyCommand=false")
_OPTIONS = (
    "-oBatchMode=yes",  # nobody is asked for a password by a program that nobody sees
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oPermitLocalCommand=no",
    "-oRequestTTY=no",
)


class Connection:
    """Opened by ``open``, closed by ``close``. ``notify`` is told when it is lost and made
    again, and whether the machine was ``restarted`` in between.
    """

    def __init__(self, address: Address, patience: float = _PATIENCE) -> None:
        self.address = address
        self.patience = patience
        self.notify: Callable[[str], None] = lambda text: None
        self._stack = contextlib.ExitStack()
        self.restarted = False
        self._start = ""  # of the machine, as boot.start has it
        self._forwards: list[str] = []
        self._wanted = False
        self._up = threading.Event()
        self._answered = threading.Event()  # the first attempt has ended, one way or the other
        self._failure: CnibenchError | None = None
        self._number = 0  # of connections that came about
        self._keeper: threading.Thread | None = None
        self._master: Process | None = None
        self._held = contextlib.ExitStack()  # the command that lasts as long as the connection
        self._holder: tuple[Process, IO[bytes]] | None = None  # and its standard input
        self._ended = threading.Event()

    def open(self) -> None:
        """Raises ClusterError with what ssh said, and what to do about it."""
        if self._keeper is not None and self._keeper.is_alive():
            return
        if not self._wanted:
            self._socket = self._stack.enter_context(scratch.folder()) / "s"
        self._wanted = True
        self._answered.clear()
        # Its own thread: the kernel ends a child with the thread that started it.
        self._keeper = threading.Thread(target=self._keep, name=f"{self.address}", daemon=True)
        self._keeper.start()
        self._answered.wait(_CONNECT * 2)
        if not self._up.is_set():
            failure = self._failure or LimitError(f"{self.address} did not answer")
            self.close()
            raise failure

    def close(self) -> None:
        """May be called twice."""
        self._wanted = False
        self._ended.set()
        self._held.close()
        master = self._master
        if master is not None:
            with contextlib.suppress(CnibenchError):
                master.kill()
        if self._keeper is not None:
            self._keeper.join(_CONNECT)
            self._keeper = None
        self._up.clear()
        self._stack.close()
        self._forwards.clear()

    def forward(self, local: int, remote: int) -> None:
        """Port ``local`` of this machine leads to ``remote`` of that machine's own, also after the
        connection was renewed. Raises ClusterError.
        """
        given = f"127.0.0.1:{local}:127.0.0.1:{remote}"
        self._wait_up()
        argv = [*self._ssh(), "-O", "forward", "-L", given, self._target()]
        programs.run(argv, timeout=_CONNECT)
        self._forwards.append(given)

    def run(
        self,
        command: str,
        *,
        timeout: float,
        input: str | None = None,
        file: Path | None = None,
        check: bool = True,
        repeat: bool = True,
    ) -> Done:
        """A shell command on the machine; ``file`` is its standard input. Repeated when the
        connection is lost in the middle, which the command must bear (``repeat``).

        Raises ClusterError, LimitError.
        """
        end = time.monotonic() + timeout
        while True:
            self._wait_up()
            number = self._number
            argv = self._argv(command)
            left = max(1.0, end - time.monotonic())
            done = (
                self._with_file(argv, file, left)
                if file
                else programs.run(argv, timeout=left, input=input, check=False)
            )
            if done.returncode != LOST or not repeat or time.monotonic() > end:
                break
            if not self._renewed(number):  # the command itself ended so
                break
        if done.returncode == LOST:
            raise explained(str(self.address), done.stderr)
        if check and done.returncode:
            said = " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-4:])
            raise ClusterError(f"{self.address}: {said or f'exit status {done.returncode}'}")
        return done

    def hold(self, command: str) -> bool:
        """A command that prints a line and then lasts as long as lines come to it and the
        connection is there; it is started again with it. False when somebody else has what it
        holds (exit status 3). Raises ClusterError.
        """
        self._wait_up()
        self._ended.clear()
        if not self._start_holding(command):
            return False
        threading.Thread(target=self._keep_holding, args=(command,), daemon=True).start()
        return True

    def _start_holding(self, command: str) -> bool:
        argv = self._argv(command)
        self._held.close()
        with contextlib.ExitStack() as stack:
            errors = Errors()
            stack.callback(errors.close)
            process, given, answer = programs.converse(argv, errors)
            for one in (process, given, answer):
                stack.enter_context(one)
            if not answer.readline():
                if (status := process.wait(_CONNECT)) == _HELD:
                    return False
                if status == LOST:
                    raise explained(str(self.address), errors.text())
                said = errors.text() or "nothing can be written to its disk"
                raise ClusterError(f"{self.address}: {said}", "is its disk full, or read-only?")
            self._held, self._holder = stack.pop_all(), (process, given)
        return True

    def _keep_holding(self, command: str) -> None:
        assert self._holder is not None
        said = ""
        while not self._ended.wait(_BEAT):
            process, given = self._holder
            if process.poll() is None:
                with contextlib.suppress(OSError, ValueError):  # it has just ended
                    given.write(b"on\n")
            elif self._up.is_set():
                try:
                    held = self._start_holding(command)
                    lost = "" if held else f"{self.address}: another run uses it now"
                except CnibenchError as error:
                    lost = error.message
                if lost and lost != said:
                    self.notify(lost)
                said = lost

    def _with_file(self, argv: Sequence[str], file: Path, timeout: float) -> Done:
        began = time.monotonic()
        with scratch.folder() as folder:
            out, err = folder / "out", folder / "err"
            with programs.spawn(argv, stdin=file, stdout=out, stderr=err) as process:
                status = process.wait(timeout)
            said, complained = (path.read_text(errors="replace") for path in (out, err))
        return Done(tuple(argv), status, said, complained, time.monotonic() - began)

    def argv(self, command: str) -> list[str]:
        """The command of this machine that runs ``command`` on that one. Raises ClusterError."""
        self._wait_up()
        return self._argv(command)

    def _argv(self, command: str) -> list[str]:
        return [*self._ssh(), *_SHARED, self._target(), "--", command]

    def _ssh(self) -> list[str]:
        return ["ssh", "-S", str(self._socket), *_OPTIONS]

    def _target(self) -> str:
        return (
            f"{self.address.user}@{self.address.host}" if self.address.user else self.address.host
        )

    def _wait_up(self) -> None:
        self.open()
        if not self._up.wait(self.patience):
            failure = self._failure
            raise failure or LimitError(f"{self.address} did not answer")

    def _renewed(self, number: int) -> bool:
        """Whether the connection of that number has ended, and another one came about."""
        end = time.monotonic() + _NOTICED
        while self._number == number and self._up.is_set() and time.monotonic() < end:
            time.sleep(0.1)
        if self._number == number and self._up.is_set():
            return False
        self._wait_up()
        return True

    def _keep(self) -> None:
        """Makes the connection, and makes it again whenever it was lost."""
        lost = 0.0
        while self._wanted:
            errors = Errors()
            try:
                self._attempt(errors, lost)
            except CnibenchError as error:
                self._failure = error
            finally:
                errors.close()
            self._answered.set()
            was_up = self._up.is_set()
            self._up.clear()
            if not self._wanted or (not was_up and not lost):
                return  # it never came about
            if was_up:
                lost = time.monotonic()
                self.notify(f"{self.address}: the connection is lost; connecting again")
            if time.monotonic() - lost > self.patience:
                return
            time.sleep(_AGAIN)

    def _attempt(self, errors: Errors, lost: float) -> None:
        """Returns when the connection has ended. Raises ClusterError with the reason."""
        self._socket.unlink(missing_ok=True)
        forwards = [word for one in self._forwards for word in ("-L", one)]
        port = ["-p", str(self.address.port)] if self.address.port else []
        argv = [
            *self._ssh(),
            "-oControlMaster=yes",
            "-oControlPersist=no",
            *port,
            *forwards,
            self._target(),
            _UP,
        ]
        process, given, answer = programs.converse(argv, errors)
        self._master = process
        with process, given, answer:
            if answer.readline().strip() == b"up":
                restarted = self._look(answer)
                self._failure = None
                self._number += 1
                self._up.set()
                self._answered.set()
                if lost:
                    seconds = time.monotonic() - lost
                    more = "; the machine was restarted" if restarted else ""
                    self.notify(f"{self.address}: connected again after {seconds:.0f} s{more}")
                answer.read()
            with contextlib.suppress(CnibenchError):
                process.wait(2.0)
            raise explained(str(self.address), errors.text())

    def _look(self, answer: IO[bytes]) -> bool:
        """Was the machine restarted since the connection before this one?"""
        said = []
        while (line := answer.readline()).strip():
            said.append(line.decode(errors="replace"))
        if not said or not line:  # it cannot be read, or the connection ended in the middle
            return False
        before, self._start = self._start, boot.start(said[0], said[-1])
        again = before not in ("", self._start)
        self.restarted |= again
        return again
