"""`python -m andornot` is `andornot`."""

import sys

from .commands.main import main

sys.exit(main())
