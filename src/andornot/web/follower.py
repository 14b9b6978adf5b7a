"""The gallery as it was committed last: looked at every second by a thread, replaced as a whole when it has changed."""

import threading
from contextlib import suppress
from typing import Final, NamedTuple

from ..gallery import Gallery, GalleryError
from ..gallery.browsing import Browser
from ..gallery.errors import LockedError
from ..model import ModelError
from .problems import general, log
from .worker_pool import THREADS

_SECONDS: Final = 1.0
_PATIENCE: Final = 0.3  # at the end; to read or to derive may take longer, and nobody needs it any more


class Served(NamedTuple):
    """One state of the gallery: who has it keeps it, whatever is committed meanwhile."""

    gallery: Gallery
    browser: Browser


class Follower:
    """Follows a gallery between `start` and `stop`."""

    def __init__(self, gallery: Gallery) -> None:
        self._given = self._latest = gallery
        self._seen: object = None
        self._served: Served | None = None
        self._trouble: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"{THREADS}following", daemon=True)

    @property
    def name(self) -> str:
        """What people may call the gallery: the name of its folder."""
        return self._given.folder.name

    def current(self) -> Served:
        """The state of now; a RequestError if it cannot be read."""
        served = self._served
        if served is None:
            raise general(self._trouble or GalleryError("the gallery is not open yet"))
        return served

    def start(self) -> None:
        """Reads the gallery, and follows it from now on."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """Follows it no longer."""
        self._stopping.set()
        self._thread.join(_PATIENCE)

    def look(self) -> None:
        """Reads the gallery if its files are other ones than at the last look."""
        token = self._given.state_token()
        if token == self._seen:
            return
        try:
            self._latest = self._latest.refreshed()
            self._served = Served(self._latest, self._latest.browse())
            self._seen = token  # as it was before reading: what came since is seen by the next look
            self._trouble = None
        except LockedError:
            return  # as long as that lasts, the former state is served
        except Exception as error:  # whatever it is, the next look may find the gallery whole again
            if str(error) != str(self._trouble):
                log.error("%s", error)
            self._served, self._trouble, self._seen = None, error, None

    def _follow(self) -> None:
        # Once, and not for every state: who changes the gallery does so too.
        with suppress(GalleryError, ModelError):
            self._given.derive()
        while not self._stopping.wait(_SECONDS):
            self.look()
