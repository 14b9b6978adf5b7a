import sys

import pytest
import torch
from hypothesis import settings

# One derandomised profile: a red run is red again for whoever looks into it.
settings.register_profile("andornot", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("andornot")
torch.set_num_threads(1)


@pytest.fixture
def install(monkeypatch):
    """Install a stand-in for a package, `install("timm", module)`, or make it missing, `install("timm", None)`."""
    return lambda name, module: monkeypatch.setitem(sys.modules, name, module)
