"""Makes parity cases with PyTorch, trains each with engine-train and compares. Called by run.sh.

Judged, a figure a line (got, wanted, error, limit):
  losses    of every step, relative to float64                                    limit 1e-5
  weights   after the last step: sum of squares, relative; sum, relative to sqrt(n * sum of squares), which bounds the sum of
            absolute values (a sum near zero has no relative error of its own)    limit 1e-5
  gradients of the first step: each tensor's relative L2 error against float64    limit 2 x PyTorch's own float32 error + 1e-6
A deep network on a small random batch is chaotic after its first update, so for inception_v4 only the first loss and the first gradients
count; the first loss then is judged like a gradient: twice PyTorch's float32 error + 1e-6.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

import numpy as np
from safetensors import safe_open

OPTIMIZERS = {
    "sgd": ["--optimizer", "sgd", "--momentum", "0"],
    "nesterov": ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov"],
    "rmsprop": ["--optimizer", "rmsprop", "--rho", "0.9", "--epsilon", "1e-7"],
    "adam": ["--optimizer", "adam", "--beta1", "0.9", "--beta2", "0.999", "--epsilon", "1e-7"],
}
SMALL = [(m, o, 4, 5) for m in ("mlp", "cnn", "shared_lstm") for o in OPTIMIZERS]
DEEP = [("inception_v4_171px", "nesterov", 8, 1)]


class Tally:
    def __init__(self):
        self.passed, self.failed = 0, []

    def judge(self, what, error, limit, detail=""):
        fine = bool(error <= limit)  # false for NaN
        print(f"  {'ok  ' if fine else 'FAIL'} {what:<58} error {error:.2e}  limit {limit:.1e}  {detail}")
        if fine:
            self.passed += 1
        else:
            self.failed.append(what)


def make_case(a, model, optimizer, batch, steps):
    folder = f"{a.work}/{model}-{optimizer}"
    if not os.path.exists(f"{folder}/expected.json"):
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, os.path.basename(a.maker), model, os.path.abspath(folder) + ".part", "--batch", str(batch), "--steps", str(steps),
                   "--optimizer", optimizer]
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run(command, cwd=os.path.dirname(a.maker), env=env, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        os.rename(folder + ".part", folder)
    return folder


def train(a, folder, optimizer, arguments):
    out = f"{folder}/run"
    shutil.rmtree(out, ignore_errors=True)
    command = [a.engine, f"{folder}/model.onnx", "--data", f"{folder}/batches.npz", "--no-shuffle", "--batch", str(arguments["batch"]), "--epochs", "1",
               "--lr", repr(arguments["lr"]), "--decay", repr(arguments["decay"]), "--write-gradients", f"{folder}/ours.safetensors",
               "--metrics-every-step", "--verbose", "0", "--out", out, *OPTIMIZERS[optimizer]]
    if a.devices:
        command += ["--devices", a.devices]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"  FAIL {' '.join(command)}\n       ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return None
    return out


def step_losses(out):
    """The losses of metrics.jsonl's step lines, in order."""
    losses = []
    with open(f"{out}/metrics.jsonl") as f:
        for line in f:
            row = json.loads(line)
            if row.get("kind", "step" if "step_loss" in row else "epoch") == "step":
                losses.append(row["loss"])
    return losses


def relative(got, wanted):
    return abs(got - wanted) / max(abs(wanted), 1e-300)


def judge_losses(tally, losses, expected, deep):
    wanted = expected["loss_float64"]
    if len(losses) < len(wanted):
        tally.judge(f"losses: {len(losses)} of {len(wanted)} steps are in metrics.jsonl", float("nan"), 0)
        return
    for i, (got, exact, rounded) in enumerate(zip(losses, wanted, expected["loss_float32"])):
        limit = 2 * relative(rounded, exact) + 1e-6 if deep else 1e-5
        tally.judge(f"loss of step {i + 1}", relative(got, exact), limit, f"got {got:.9g}, float64 {exact:.9g}, PyTorch float32 {rounded:.9g}")


def judge_weights(tally, path, expected):
    with safe_open(path, "np") as f:
        names = set(f.keys())
        for name, (total, squares) in expected["weights"].items():
            if name not in names:
                tally.judge(f"weight {name} is not in last.ckpt", float("nan"), 0)
                continue
            w = f.get_tensor(name).astype(np.float64)
            error = max(relative(float((w * w).sum()), squares), abs(float(w.sum()) - total) / max((w.size * squares) ** 0.5, 1e-300))
            tally.judge(f"weight {name}", error, 1e-5, f"sum {w.sum():.9g}, wanted {total:.9g}; squares {(w * w).sum():.9g}, wanted {squares:.9g}")


def judge_gradients(tally, folder, expected):
    worst = (0.0, 0.0, "", 0.0)
    with safe_open(f"{folder}/gradients.safetensors", "np") as exact, safe_open(f"{folder}/ours.safetensors", "np") as ours:
        names = set(ours.keys())
        for name, own in expected["gradient_error_float32"].items():
            if name not in names:
                tally.judge(f"gradient {name} was not written", float("nan"), 0)
                continue
            g, e = ours.get_tensor(name).astype(np.float64), exact.get_tensor(name)
            error = float(np.linalg.norm(g - e) / max(np.linalg.norm(e), 1e-300)) if g.shape == e.shape else float("nan")
            tally.judge(f"gradient {name}", error, 2 * own + 1e-6, f"PyTorch float32 {own:.2e}")
            worst = max(worst, (error / (2 * own + 1e-6), error, name, own))
    print(f"       nearest to its limit: {worst[2]}: {worst[1]:.2e}, PyTorch float32 {worst[3]:.2e}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("models", nargs="*")
    p.add_argument("--engine", required=True)
    p.add_argument("--maker", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--devices", help="engine-train's; without it, its default")
    a = p.parse_args()
    a.engine, a.maker, a.work = os.path.abspath(a.engine), os.path.abspath(a.maker), os.path.abspath(a.work)
    os.makedirs(a.work, exist_ok=True)
    known = sorted({c[0] for c in SMALL + DEEP})
    for m in a.models:
        if m not in known:
            sys.exit(f"parity: unknown model '{m}'; known: {', '.join(known)}")
    tally = Tally()
    for case in SMALL + DEEP:
        model, optimizer, batch, steps = case
        if a.models and model not in a.models:
            continue
        print(f"{model}, {optimizer}, batch {batch}, {steps} steps", flush=True)
        folder = make_case(a, model, optimizer, batch, steps)
        expected = json.load(open(f"{folder}/expected.json"))
        out = train(a, folder, optimizer, expected["arguments"])
        if out is None:
            tally.failed.append(f"{model}, {optimizer}: the run")
            continue
        judge_losses(tally, step_losses(out), expected, case in DEEP)
        judge_gradients(tally, folder, expected)
        if case not in DEEP:
            judge_weights(tally, f"{out}/last.ckpt", expected)
        sys.stdout.flush()
    print(f"{tally.passed} passed, {len(tally.failed)} failed")
    sys.exit(1 if tally.failed or not tally.passed else 0)


main()
