"""What earlier runs left on a cluster."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cnibench.testbed.capability import Capability


@dataclass(frozen=True)
class Leftover:
    """Something that an earlier run left; ``owner`` made it ('': not known), ``about`` says whom
    its removal concerns.

    ``kept`` says why it stays, '' when ``remove`` may be called; ``refused``: because a check of
    ``run`` forbids it.
    ``remove`` raises CnibenchError.
    """

    what: str
    remove: Callable[[], object]
    owner: str = ""
    about: str = ""
    kept: str = ""
    remedy: str = ""
    refused: bool = False


class Ownership(Capability):
    """A cluster on which runs can leave something, each marked with its owner."""

    title = "finding what earlier runs left"

    @abc.abstractmethod
    def leftovers(
        self, owners: Sequence[str] = (), tell: Callable[[str], None] = print
    ) -> list[Leftover]:
        """What earlier runs of this user and of ``owners`` left; nothing is changed. Within the
        cluster's ``with``.

        ``tell`` is called before something takes its time.
        """
