"""Training beside busy processes, with threads that spin as OpenMP has it, and with threads that sleep as commands do.

One process trains `conv5` on two threads for a few seconds, alone and beside one that computes on each processor.
"""

import argparse
import os
import subprocess
import sys
import time

SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}


def train(seconds: float) -> None:
    """Prints how many images a second."""
    import torch

    from andornot.model import new_network
    from andornot.ssl.recipe import make_recipe

    network, images = new_network(make_recipe({"backbone": "conv5"}), 1), torch.rand(128, 1, 28, 28)
    optimiser = torch.optim.SGD(network.parameters(), 1e-3)
    steps, start = -3, time.perf_counter()  # the first few are not counted
    while steps < 1 or time.perf_counter() - start < seconds:
        if steps == 0:
            start = time.perf_counter()
        optimiser.zero_grad()
        network(images).p.sum().backward()
        optimiser.step()
        steps += 1
    print(len(images) * steps / (time.perf_counter() - start))


def rate(neighbours: int, seconds: float, **waiting: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name not in SLEEPING} | waiting
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(neighbours)]
    try:
        command = [sys.executable, __file__, "--train", str(seconds)]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=float, metavar="SECONDS", help="be the one that trains")
    options = parser.parse_args()
    if options.train is not None:
        train(options.train)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    print("\nimages a second of a training with two threads, best of two")
    print(f"{'neighbours':>12}{'spinning':>10}{'sleeping':>10}{'ratio':>8}")
    for neighbours in (0, 1, os.cpu_count() or 1):
        runs = [(rate(neighbours, 4), rate(neighbours, 4, **SLEEPING)) for _ in range(2)]
        spinning, sleeping = (max(rates) for rates in zip(*runs, strict=True))
        print(f"{neighbours:>12}{spinning:>10.0f}{sleeping:>10.0f}{sleeping / spinning:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
