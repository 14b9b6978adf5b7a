"""Packages that only some backbones need: imported when one is built, with one clear line where that fails."""

import importlib
import warnings
from typing import Any

from ...errors import MissingPackageError


def import_package(package: str, *, backbone: str, install: str) -> Any:
    """The module `package`, or an error that says which `pip install` the backbone needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise MissingPackageError(f"backbone {backbone}: {package} cannot be imported ({error})") from error
        raise MissingPackageError(f"backbone {backbone} needs {package}: pip install {install}") from None
    except (ImportError, OSError, RuntimeError) as error:  # a wheel that does not fit the torch beside it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MissingPackageError(f"backbone {backbone}: {package} cannot be imported ({reason})") from error
