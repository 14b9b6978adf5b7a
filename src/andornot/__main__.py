"""`python -m andornot` is `andornot`."""

import sys

from .cli import main

sys.exit(main())
